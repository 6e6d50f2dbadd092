"""The oracle's fold of the controller's log comes to what the controller's own replay does, and its
minima to what I-91 says.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.controller.log import snapshot
from strandline_broker.core.controller.log.records import (
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode,
)
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.storage.controller.metadata_snapshot import SnapshotId, write_snapshot
from strandline_broker.storage.files.file import CREATE, File
from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.oracles.controller.decided import METADATA, MINIMUM, DecidedLog
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.batch import build_batch, prefix, read_header
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
)

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.records import AnyRecord

ID = TopicId(bytes(range(16)))
KEY = bytes(ID), 0
B1, B2, B3, B4 = (BrokerId(number) for number in (1, 2, 3, 4))
TOPIC = TopicRecord(name="t", topic_id=ID)
PARTITION = PartitionRecord(
    topic_id=ID,
    partition=0,
    replicas=(B1, B2, B3),
    directories=("a", "b", "c"),
    isr=(B1, B2, B3),
    leader=B1,
    leader_epoch=LeaderEpoch(0),
    partition_epoch=PartitionEpoch(0),
)
REGISTER = RegisterBrokerRecord(
    broker_id=B1,
    incarnation_id="i",
    directory_id="d",
    flush_policy="always",
    pid=1,
    version="1",
    listeners=(),
    inter_broker_listener="x",
)


def change(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=ID, partition=0, **fields)  # type: ignore[arg-type]


def minimum(value: str | None, topic_id: TopicId | None = None) -> ConfigRecord:
    return ConfigRecord(topic_id=topic_id, key=MINIMUM, value=value)


def at(offset: int, batch: bytes) -> bytes:
    """As it stands in a log."""
    return prefix(offset, read_header(batch).batch_length, 1) + batch[16:]


class Store:
    """A controller's log on a simulated disk, and the controller's own state beside it."""

    def __init__(self, begins: int = 0) -> None:
        self.disk = SimDisk(Random(1), lambda: 0.0)
        self.fs = SimFs(self.disk)
        self.fs.makedirs(METADATA)
        self._log = File(self.fs, f"{METADATA}/{begins:020d}.log", CREATE)
        self._size = 0
        self.state = ControllerState()
        self.end = begins

    def add(self, *records: AnyRecord) -> None:
        """One decision."""
        values = [(None, encode(record)) for record in records]
        batch = at(self.end, build_batch(values, timestamp_ms=1))
        self._log.write((batch,), len(batch), self._size)
        self._size += len(batch)
        for record in records:
            self.state.replay(record, MetadataOffset(self.end))
            self.end += 1

    def fold(self) -> DecidedLog:
        found = DecidedLog(self.disk)
        found.read_to(self.end - 1)
        return found


def test_the_fold_is_what_the_controller_replays() -> None:
    store = Store()
    store.add(minimum("2"), TOPIC, PARTITION)
    store.add(change(isr=(B1, B2)))
    store.add(change(isr=(B2,), elr=(B1,), leader=B2), change(isr=(B2, B1), elr=()))
    decided = store.fold().newest(KEY)
    partition = store.state.partition(ID, 0)
    assert decided is not None
    assert not decided.differs_from(partition)
    assert decided.epochs == (1, 3)


def test_what_stood_at_an_epoch_and_at_an_offset() -> None:
    store = Store()
    store.add(minimum("2"), TOPIC, PARTITION)
    store.add(change(isr=(B1, B2)))
    store.add(change(isr=(B1,)))
    found = store.fold()
    at, as_of = found.at(KEY, 1), found.as_of(KEY, 3)
    assert at is not None
    assert at is as_of
    assert (at.isr, at.minimum) == ((1, 2), 2)
    assert found.at(KEY, 7) is None
    assert found.as_of(KEY, 1) is None


def test_a_topics_own_minimum_goes_before_the_clusters_and_that_before_the_default() -> None:
    store = Store()
    store.add(minimum("1"), TOPIC, PARTITION)
    assert store.fold().minimum(KEY) == 1
    store.add(BrokerConfigRecord(key=MINIMUM, value="2"), change())
    assert store.fold().minimum(KEY) == 2
    store.add(minimum("3", ID), change())
    assert store.fold().minimum(KEY) == 3
    store.add(BrokerConfigRecord(broker_id=B1, key=MINIMUM, value="1"))
    assert store.fold().minimum(KEY) == 3
    store.add(minimum(None, ID), change())
    assert store.fold().minimum(KEY) == 2


def test_no_more_are_asked_for_than_there_were_before_a_move() -> None:
    store = Store()
    store.add(minimum("4"), TOPIC, PARTITION)
    assert store.fold().minimum(KEY) == 3
    store.add(
        change(
            replicas=(B1, B2, B3, B4),
            directories=("a", "b", "c", "d"),
            adding=(B4,),
            original=(B1, B2, B3),
        )
    )
    assert store.fold().minimum(KEY) == 3


def test_a_minimum_that_changes_without_a_partition_epoch() -> None:
    store = Store()
    store.add(minimum("1"), TOPIC, PARTITION)
    store.add(minimum("2", ID))
    with pytest.raises(Violation, match="I-91"):
        store.fold()


def test_when_a_broker_was_fenced_and_began_to_stop() -> None:
    store = Store()
    store.add(REGISTER)
    wish = {"broker_id": B1, "broker_epoch": BrokerEpoch(0)}
    store.add(BrokerRegistrationChangeRecord(**wish, fenced=False))  # type: ignore[arg-type]
    assert (store.fold().fenced_at(1), store.fold().stopping_at(1)) == (0, None)
    assert (store.fold().unfenced_at(1), store.fold().unfenced_at(2)) == (1, -1)
    store.add(BrokerRegistrationChangeRecord(**wish, in_controlled_shutdown=True))  # type: ignore[arg-type]
    store.add(BrokerRegistrationChangeRecord(**wish, fenced=True))  # type: ignore[arg-type]
    assert (store.fold().fenced_at(1), store.fold().stopping_at(1)) == (3, 2)
    assert store.fold().unfenced_at(1) == 1


def test_a_topic_that_is_deleted_has_no_partitions() -> None:
    store = Store()
    store.add(TOPIC, PARTITION)
    store.add(RemoveTopicRecord(topic_id=ID))
    assert list(store.fold().keys()) == []


def test_a_log_that_goes_on_from_a_snapshot() -> None:
    before = Store()
    before.add(minimum("2"), TOPIC, PARTITION)
    after = Store(begins=before.end)
    taken = SnapshotId(before.end, ControllerEpoch(1))
    values = snapshot.take(before.state).values()
    write_snapshot(after.fs, METADATA, taken, values, store_id="s", now_ms=1)
    after.state = before.state
    after.add(change(isr=(B1, B2)))
    decided = after.fold().newest(KEY)
    assert decided is not None
    assert (decided.isr, decided.partition_epoch, decided.minimum) == ((1, 2), 1, 2)


def test_a_log_without_its_beginning() -> None:
    store = Store(begins=5)
    store.state.last_offset = MetadataOffset(4)
    store.add(TOPIC, PARTITION)
    with pytest.raises(Violation, match="I-7"):
        store.fold()
