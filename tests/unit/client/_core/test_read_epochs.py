"""What a consumer knows of the leader epochs of what it was handed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline._core.position import Position
from strandline._core.read_epochs import EPOCHS_MAX, UNKNOWN, ReadEpochs
from strandline.types import TopicPartition
from support.examples import examples

READ = st.tuples(st.just("read"), st.integers(1, 4), st.integers(0, 1))
MOVE = st.one_of(
    st.tuples(st.just("put back"), st.integers(1, 6), st.just(0)),
    st.tuples(st.just("seek back"), st.integers(0, 6), st.just(0)),
    st.tuples(st.just("seek"), st.integers(0, 12), st.integers(UNKNOWN, 3)),
)
STEPS = st.lists(st.tuples(READ, READ, MOVE), max_size=4).map(lambda rounds: sum(rounds, ()))


def position_at(offset: int, epoch: int) -> Position:
    position = Position(TopicPartition("t", 0), b"i" * 16, None)
    position.seek(offset, epoch)
    return position


def test_each_offset_has_the_epoch_of_the_record_before_it() -> None:
    position = position_at(10, 2)
    position.on_delivered(12, 2)
    position.on_delivered(15, 4)
    position.on_delivered(16, 7)
    found = [position.epoch_before(offset) for offset in range(9, 18)]
    assert found == [UNKNOWN, 2, 2, 2, 4, 4, 4, 7, UNKNOWN]


def test_what_stands_before_the_first_record_is_unknown_unless_somebody_says() -> None:
    position = position_at(10, UNKNOWN)
    position.on_delivered(11, 4)
    assert [position.epoch_before(offset) for offset in (10, 11)] == [UNKNOWN, 4]


def test_a_reset_position_knows_only_what_is_read_from_there() -> None:
    position = position_at(0, UNKNOWN)
    position.on_delivered(8, 4)
    position.on_delivered(20, 5)
    position.reset(-2)
    assert position.epoch_before(5) == UNKNOWN
    position.on_listed(position.generation, 7, 9)
    position.on_delivered(9, 6)
    assert [position.epoch_before(offset) for offset in (5, 7, 8, 9)] == [UNKNOWN, UNKNOWN, 6, 6]


def test_trouble_ahead_leaves_what_was_handed_over() -> None:
    position = position_at(0, UNKNOWN)
    position.on_leader(5)
    position.on_delivered(5, 4)
    assert position.on_fetched(position.generation, 9, 5)
    position.on_out_of_range(position.generation, 0)
    assert [position.epoch_before(offset) for offset in (3, 5, 6)] == [4, 4, UNKNOWN]


def test_only_so_many_epochs_are_remembered() -> None:
    read = ReadEpochs()
    read.begin(0)
    for at in range(EPOCHS_MAX + 3):
        read.leave(at, at)
    last = (EPOCHS_MAX + 3, EPOCHS_MAX + 3)
    found = [read.before(offset, last) for offset in range(6)]
    assert found == [UNKNOWN, UNKNOWN, UNKNOWN, 3, 4, 5]
    assert read.before(*last[:1], last) == EPOCHS_MAX + 3


@settings(max_examples=examples(200))
@given(STEPS)
def test_as_if_the_epoch_of_every_offset_were_written_down(
    steps: tuple[tuple[str, int, int], ...],
) -> None:
    """A table forgets everything where the position is set to a place that it does not know."""
    position, known = position_at(0, UNKNOWN), {0: UNKNOWN}
    for what, number, epoch in steps:
        if what == "read":
            to, epoch = position.offset + number, max(0, position.epoch) + epoch
            known |= dict.fromkeys(range(position.offset + 1, to + 1), epoch)
            position.on_delivered(to, epoch)
        elif what == "seek":
            position.seek(number, epoch)
            if epoch < 0 or known.get(number) != epoch:
                known = {number: epoch}
        else:
            to = max(min(known), position.offset - number)
            epoch = known[to]
            if what == "put back":
                position.on_delivered(to, epoch)
            else:
                position.seek(to, epoch)
                known = known if epoch >= 0 else {to: epoch}
        known = {offset: at for offset, at in known.items() if offset <= position.offset}
        expected = [known.get(offset, UNKNOWN) for offset in range(40)]
        assert [position.epoch_before(offset) for offset in range(40)] == expected
