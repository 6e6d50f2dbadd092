"""What is due, against a model that looks at everything; and that a look does not."""

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.deadlines import STALE_MAX, Deadlines

steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 30)),
        st.tuples(st.just("drop"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("due"), st.just(0), st.integers(0, 30)),
    ),
    max_size=60,
)


@given(steps)
def test_what_is_due_is_what_was_set_last_and_not_dropped(
    history: list[tuple[str, int, int]],
) -> None:
    deadlines, model = Deadlines[int](), dict[int, int]()
    for step, thing, ms in history:
        if step == "set":
            deadlines.set(thing, ms)
            model[thing] = ms
        elif step == "drop":
            deadlines.drop(thing)
            model.pop(thing, None)
        else:
            found = deadlines.due(ms)
            assert sorted(found) == sorted(t for t, at in model.items() if at <= ms)
            assert [model[t] for t in found] == sorted(model[t] for t in found)
            model = {t: at for t, at in model.items() if at > ms}
        assert deadlines.next_ms == min(model.values(), default=None)
        assert len(deadlines) == len(model)


class Looked:
    """A thing that counts how often it is looked at."""

    looks = 0

    def __hash__(self) -> int:
        type(self).looks += 1
        return id(self)


def test_a_look_costs_what_is_due() -> None:
    deadlines = Deadlines[Looked]()
    due, *others = [Looked() for _ in range(1000)]
    for thing in others:
        deadlines.set(thing, 100)
    deadlines.set(due, 50)
    Looked.looks = 0
    assert deadlines.due(49) == []
    assert deadlines.due(50) == [due]
    assert Looked.looks < 20


def test_what_is_moved_again_and_again_takes_no_more_room() -> None:
    deadlines = Deadlines[str]()
    deadlines.set("kept", 1_000_000)
    for at_ms in range(100_000):
        deadlines.set("moved", 500_000 + at_ms)
        deadlines.set("dropped", at_ms)
        deadlines.drop("dropped")
    assert len(deadlines._heap) <= 2 * 3 + STALE_MAX
    assert deadlines.due(599_999) == ["moved"]
