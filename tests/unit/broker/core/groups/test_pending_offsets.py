"""Offsets of open transactions, against a model that looks at the whole log each time (I-146)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.groups.commands import (
    DeleteGroup,
    DeleteOffsets,
    TopicPartitionsRef,
    TopicRef,
)
from strandline_broker.core.groups.pending_offsets import PendingOffsets
from strandline_broker.core.groups.records.offset_records import OffsetCommitValue
from strandline_proto.errors import GroupIdNotFound, UnstableOffsetCommit
from strandline_proto.ids import NO_PRODUCER_ID, Offset, ProducerId
from support.transactional_rig import Entry, TransactionalRig, cleaned, durable_with_pending, key

PARTITIONS = 2
PRODUCERS = (1, 2, 3)


class Model:
    """One partition's offset as the log tells it, without a state."""

    def __init__(self, entries: list[Entry], partition: int) -> None:
        place = key(partition)
        mine = [e for e in entries if e.record is not None and e.record.key == place]
        cut = max((e.offset for e in mine if e.record and e.record.value is None), default=-1)
        ends: dict[int, list[tuple[int, bool]]] = {}
        for entry in entries:
            if entry.record is None:
                ends.setdefault(entry.producer_id, []).append((entry.offset, entry.is_commit))
        self.committed = -1
        self.is_pending = False
        for entry in mine:
            if entry.offset <= cut or entry.record is None:
                continue
            after = [
                is_commit for at, is_commit in ends.get(entry.producer_id, []) if at > entry.offset
            ]
            if entry.producer_id == NO_PRODUCER_ID or (after and after[0]):
                self.committed = entry.record.value.offset
            elif not after:
                self.is_pending = True


def first_open(entries: list[Entry]) -> int:
    """The offset below which every transaction is decided."""
    opened: dict[int, int] = {}
    for entry in entries:
        if entry.producer_id == NO_PRODUCER_ID:
            continue
        if entry.record is None:
            opened.pop(entry.producer_id, None)
        else:
            opened.setdefault(entry.producer_id, entry.offset)
    return min(opened.values(), default=entries[-1].offset + 1 if entries else 0)


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rig = TransactionalRig()
        self.rig.topic("t", PARTITIONS)
        self.count = 0

    def step(self) -> None:
        self.count += 1
        partition, producer = self.random.randrange(PARTITIONS), self.random.choice(PRODUCERS)
        what = self.random.choices(("plain", "staged", "mark", "delete", "clean"), (4, 6, 5, 1, 1))
        match what[0]:
            case "plain":
                assert self.rig.commit(self.count, partition=partition) is None
            case "staged":
                self.rig.txn_commit(self.count, partition=partition, producer_id=producer)
            case "mark":
                self.rig.mark(producer, is_commit=self.random.random() < 0.6)
            case "delete":
                self.delete(partition)
            case "clean":
                upto = self.random.randint(0, first_open(self.rig.entries))
                left = cleaned(self.rig.entries, upto)
                loaded = durable_with_pending(self.rig.load(left))
                assert loaded == durable_with_pending(self.rig.groups), "I-103"

    def delete(self, partition: int) -> None:
        try:
            if self.random.random() < 0.5:
                self.rig.ask(DeleteGroup("g"))
            else:
                ref = TopicPartitionsRef(TopicRef(name="t"), (partition,))
                self.rig.ask(DeleteOffsets("g", (ref,)))
        except GroupIdNotFound:
            assert not self.rig.groups.group_ids()

    def check(self) -> None:
        for partition in range(PARTITIONS):
            model = Model(self.rig.entries, partition)
            assert self.rig.fetch(partition=partition).offset == model.committed
            stable = self.rig.fetch(partition=partition, require_stable=True)
            assert isinstance(stable.error, UnstableOffsetCommit) is model.is_pending
            assert stable.offset == (-1 if model.is_pending else model.committed)
        loaded = durable_with_pending(self.rig.load())
        assert loaded == durable_with_pending(self.rig.groups), "I-102"


@given(st.integers(0, 1 << 32))
def test_any_history_is_what_its_log_says(seed: int) -> None:
    history = History(seed)
    for _ in range(40):
        history.step()
        history.check()
    for producer in PRODUCERS:
        history.rig.mark(producer, is_commit=False)
    history.check()
    pending = history.rig.groups.table.pending
    assert not pending
    assert not pending._keys


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_of_another_producer_decides_nothing(is_commit: bool) -> None:
    rig = TransactionalRig()
    rig.topic("t", 1)
    rig.txn_commit(5, producer_id=1)
    rig.mark(2, is_commit=is_commit)
    assert rig.fetch().offset == -1
    rig.mark(1)
    assert rig.fetch().offset == 5


def test_offsets_of_several_groups_end_with_their_producer() -> None:
    pending = PendingOffsets()
    value = OffsetCommitValue(offset=Offset(5), commit_timestamp_ms=0)
    for at, (producer, group_id) in enumerate([(1, "a"), (1, "b"), (2, "b")]):
        pending.stage(ProducerId(producer), Offset(at), key(group_id=group_id), value)
    assert set(pending.groups) == {"a", "b"}
    assert pending.groups_of(ProducerId(1)) == {"a", "b"}
    pending.overtake(key(group_id="b"), Offset(2))
    ended = pending.end(ProducerId(1))
    assert [(k.group, staged.record_offset, staged.is_overtaken) for k, staged in ended] == [
        ("a", 0, False),
        ("b", 1, True),
    ]
    assert (set(pending.groups), pending.groups_of(ProducerId(1))) == ({"b"}, set())
    assert [staged[0].is_overtaken for _, _, staged in pending.of_group("b")] == [False]
    pending.drop(key(group_id="b"))
    assert not pending
    assert pending.end(ProducerId(2)) == []
