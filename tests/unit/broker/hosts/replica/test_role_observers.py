"""What observers of roles are told, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.push_envelope import TOPIC_DELETED
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import build_batch
from support.pushed_broker import TOPIC_ID, ask, broker, push, with_topic
from support.scripted_controller import running

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome


class Observer:
    """Writes down what it hears in a list that several share."""

    def __init__(self, name: str, heard: list[tuple[object, ...]]) -> None:
        self.name = name
        self.heard = heard

    def elected(self, partition: Partition, epoch: int, start: int) -> None:
        assert partition.leader is not None
        self.heard.append((self.name, "elected", epoch, start))

    def committed(self, partition: Partition, end: int) -> None:
        assert partition.leader is not None
        assert partition.high_watermark == end
        self.heard.append((self.name, "committed", end))

    def resigned(self, partition: Partition) -> None:
        assert partition.leader is None
        self.heard.append((self.name, "resigned"))

    def deleted(self, partition: Partition) -> None:
        assert partition.leader is None
        self.heard.append((self.name, "deleted"))


async def test_observers_hear_of_a_role_in_the_step_that_changes_it_one_after_the_other(
    tmp_path: Path,
) -> None:
    heard: list[tuple[object, ...]] = []

    def news() -> list[tuple[object, ...]]:
        """What the first has heard since; the second the same, each time right after it."""
        told = heard[:]
        heard.clear()
        assert told[1::2] == [("second", *what) for _, *what in told[::2]]
        return [tuple(what) for _, *what in told[::2]]

    observers = [Observer(name, heard) for name in ("first", "second")]
    async with broker(tmp_path, observers=observers) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(5, 4, full=True), leader_epoch=1))
        assert news() == [("elected", 1, 0)]
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None

        def answered(outcome: ProduceOutcome) -> None:
            heard.extend([(name, "answered", outcome.base_offset) for name in ("first", "second")])

        batch = build_batch([(None, b"v")], timestamp_ms=1)
        check_leader(partition, 1).appends.append(batch, acks=-1, on_done=answered)
        assert news() == [("answered", 0), ("committed", 1)]
        await ask(call, with_topic(push(6, 5), leader_epoch=2))
        assert news() == [("resigned",), ("elected", 2, 1)]
        removed = push(7, 6)
        topic = removed.stop_replica.add(topic_id=TOPIC_ID)
        topic.partitions.add(partition_index=0, leader_epoch=TOPIC_DELETED, delete_partition=True)
        await ask(call, removed)
        assert news() == [("resigned",), ("deleted",)]


async def test_they_hear_that_a_replica_is_set_aside(tmp_path: Path) -> None:
    """As after its removal: one that is assigned later has another log."""
    heard: list[tuple[object, ...]] = []
    observer = Observer("only", heard)
    async with broker(tmp_path, observers=[observer]) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(5, 4, full=True), leader_epoch=1))
        await ask(call, push(6, 5, full=True))
        assert heard[1:] == [("only", "resigned"), ("only", "deleted")]
