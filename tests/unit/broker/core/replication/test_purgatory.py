"""Who waits for a commit, and in what order they are released."""

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.replication.purgatory import AckWaiters
from strandline_proto.ids import Offset


def waiters(*required: int) -> AckWaiters[str]:
    made: AckWaiters[str] = AckWaiters()
    for i, offset in enumerate(required):
        made.add(Offset(offset), f"{offset}/{i}")
    return made


def test_releases_what_the_watermark_has_reached_and_nothing_else() -> None:
    w = waiters(5, 6, 7)
    assert w.release(Offset(4)) == []
    assert w.release(Offset(6)) == ["5/0", "6/1"]
    assert len(w) == 1
    assert w.release(Offset(6)) == []


def test_releases_in_order_of_offset_and_then_of_arrival() -> None:
    assert waiters(9, 3, 9, 1).release(Offset(10)) == ["1/3", "3/1", "9/0", "9/2"]


def test_draining_takes_out_everything_once() -> None:
    w = waiters(9, 3, 9)
    assert w.drain() == ["3/1", "9/0", "9/2"]
    assert w.drain() == []
    assert w.release(Offset(100)) == []


def test_a_waiter_that_was_answered_otherwise_can_be_dropped() -> None:
    w = waiters(9, 3, 5)
    w.drop(lambda item: item.startswith("3"))
    assert w.release(Offset(100)) == ["5/2", "9/0"]


def test_items_need_not_be_comparable() -> None:
    w: AckWaiters[object] = AckWaiters()
    first, second = object(), object()
    w.add(Offset(1), first)
    w.add(Offset(1), second)
    assert w.release(Offset(1)) == [first, second]


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40))
def test_everyone_is_released_exactly_once_and_never_early(history: list[tuple[int, bool]]) -> None:
    w: AckWaiters[tuple[int, int]] = AckWaiters()
    waiting: set[tuple[int, int]] = set()
    for i, (offset, is_release) in enumerate(history):
        if is_release:
            due = w.release(Offset(offset))
            assert set(due) == {x for x in waiting if x[0] <= offset}
            assert due == sorted(due)
            waiting -= set(due)
        else:
            w.add(Offset(offset), (offset, i))
            waiting.add((offset, i))
    assert w.drain() == sorted(waiting)
