"""What is lent to an iteration, and what becomes of what it has not taken."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline import TopicPartition
from strandline._consumer.delivery import Delivery
from strandline._consumer.read_ahead import LENT_MAX, Lending
from strandline._core.position import LATEST, Phase, Position
from strandline.errors import CorruptRecords
from strandline_proto.batch import build_batch, prefix

if TYPE_CHECKING:
    from strandline._consumer.fetcher import Fetcher
    from strandline._core.cluster_view import PartitionKey
    from strandline._core.commit_state import CommitOffset

ID = b"i" * 16


class Chunks:
    """A fetcher with these chunks ready: lists of batches of (records, leader epoch)."""

    def __init__(self, chunks: list[list[tuple[int, int]]]) -> None:
        self.left = list(chunks)
        self.moves: list[int] = []
        self._end = 0

    def take(self, key: PartitionKey) -> Any:
        if not self.left:
            return None
        data = b""
        for count, epoch in self.left.pop(0):
            batch = build_batch([(None, b"v")] * count, timestamp_ms=1)
            data += prefix(self._end, len(batch) - 12, epoch) + batch[16:]
            self._end += count
        return SimpleNamespace(data=data, aborted=())

    def moved(self, position: Position) -> None:
        self.moves.append(position.offset)


class Rig:
    def __init__(self, chunks: list[list[tuple[int, int]]]) -> None:
        self.position = Position(TopicPartition("t", 0), ID, LATEST)
        self.position.seek(0, -1)
        self.chunks = Chunks(chunks)
        self.delivery = Delivery(check_crcs=True, max_decompressed_bytes=1 << 20)
        self.delivery.source = cast("Fetcher", self.chunks)
        self.steps: list[CommitOffset] = []
        self.lending = Lending(self.delivery, lambda _, at: self.steps.append(at))
        self.epochs = [e for chunk in chunks for count, e in chunk for _ in range(count)]

    def lend(self) -> int:
        found = self.lending.lend([self.position])
        return sum(map(len, found.values()))

    def step(self, count: int) -> list[int]:
        return [self.lending.ahead.popleft().offset for _ in range(count)]

    def epoch_before(self, offset: int) -> int:
        return -1 if offset == 0 else self.epochs[offset - 1]


def test_one_chunk_is_lent_and_no_more_than_the_bound() -> None:
    rig = Rig([[(3, 1), (2, 1)], [(LENT_MAX + 1, 1)]])
    assert rig.lend() == 5
    assert rig.step(5) == [0, 1, 2, 3, 4]
    assert rig.lend() == LENT_MAX
    rig.step(LENT_MAX)
    assert rig.lend() == 1
    rig.step(1)
    assert rig.lend() == 0


def test_the_record_in_work_is_not_done_with() -> None:
    rig = Rig([[(3, 1), (2, 4)]])
    rig.lend()
    rig.lending.look()
    assert rig.steps == []
    rig.step(1)
    rig.lending.look()
    rig.lending.look()
    assert rig.steps == [(0, -1, "")]
    rig.step(3)
    rig.lending.take_back()
    assert rig.steps[1:] == [(3, 1, "")], "record 3 is the last that was taken"
    assert (rig.position.offset, rig.position.epoch) == (4, 4)
    assert not rig.lending.ahead


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.tuples(st.sampled_from(["lend", "step", "back", "get"]), st.integers(1, 5))),
)
def test_every_record_is_delivered_once_whatever_is_taken_back(
    given_chunks: list[list[tuple[int, int]]], actions: list[tuple[str, int]]
) -> None:
    epoch, chunks = 0, []
    for chunk in given_chunks:  # leader epochs never fall
        chunks.append([(count, epoch := epoch + more) for count, more in chunk])
    rig = Rig(chunks)
    total = len(rig.epochs)
    got: list[int] = []
    for action, count in [*actions, ("back", 1), *[("get", 5)] * total]:
        if action == "lend":
            rig.lend()
        elif action == "step":
            got += rig.step(min(count, len(rig.lending.ahead)))
        else:
            rig.lending.take_back()
            if action == "get":
                for records in rig.delivery.collect([rig.position], count).values():
                    got += [record.offset for record in records]
            assert rig.position.offset == len(got)
            assert rig.position.epoch == rig.epoch_before(len(got))
    assert got == list(range(total))


def test_records_stay_deliverable_before_the_error_of_their_partition() -> None:
    rig = Rig([[(3, 1)]])
    rig.lend()
    rig.step(1)
    rig.position.fail(CorruptRecords("t:0 is bad"))
    assert rig.lend() == 2
    assert rig.step(2) == [1, 2]
    with pytest.raises(CorruptRecords):
        rig.lend()


def test_what_was_put_back_ends_where_it_ended_before() -> None:
    rig = Rig([[(3, 1)]])
    (records,) = rig.delivery.collect([rig.position], 10).values()
    rig.delivery.put_back(rig.position, records[1:], (7, 4), 1)  # no record shows from 3 to 6
    assert (rig.position.offset, rig.position.epoch) == (1, 1)
    assert list(rig.delivery.collect([rig.position], 10).values()) == [records[1:]]
    assert rig.delivery.collect([rig.position], 10) == {}
    assert (rig.position.offset, rig.position.epoch) == (7, 4)


def test_a_position_that_was_moved_ahead_begins_anew_where_the_user_is() -> None:
    rig = Rig([[(3, 1), (3, 2)]])
    rig.lend()
    rig.step(4)
    rig.position.seek(6, 2)  # as a fetcher does that meets another history
    rig.lending.take_back()
    assert (rig.position.offset, rig.position.fetch_offset, rig.position.epoch) == (4, 4, 2)
    assert rig.position.phase is Phase.VALIDATING
    assert rig.chunks.moves == [4]
    assert rig.delivery.collect([rig.position], 10) == {}, "what was read ahead is void"


def test_a_thread_that_steps_while_records_are_taken_back_gets_the_first_of_them() -> None:
    count = 3000
    rig = Rig([[(count, 1)]])
    got: list[int] = []
    done = threading.Event()

    def iterate() -> None:
        while not done.is_set():
            with contextlib.suppress(IndexError):
                got.append(rig.lending.ahead.popleft().offset)

    thread = threading.Thread(target=iterate)
    thread.start()
    try:
        while rig.position.offset < count:
            rig.lend()
            rig.lending.look()
            rig.lending.take_back()
    finally:
        while rig.lending.ahead:
            pass
        done.set()
        thread.join()
    assert got == list(range(count))
