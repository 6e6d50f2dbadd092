"""I-99: a replica without room makes way.

A broker sends a heartbeat when the one before it has been answered. So a problem that stands
unchanged at two answers in a row was reported by a whole heartbeat, and left as it is. A refusal on
a thread can be reported once the event loop has learned of it.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.disks.full_dirs import ROOM_BYTES
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from strandline_broker.core.controller.log.state import Broker, ControllerState
    from strandline_proof.sim.cluster.node import Node

    Complaint = tuple[object, ...]


class _Known:
    """The state of one process, since it began."""

    def __init__(self, process: Any, refused: int) -> None:
        self.process = process
        self.refused = refused
        self.is_full = False
        self.answer_s: float | None = None
        self.wrong: set[Complaint] = set()


class FullDiskOracle:
    def __init__(self, sometimes: Counter[str]) -> None:
        self._sometimes = sometimes
        self._known: dict[str, _Known] = {}

    def on_step(self, node: Node, state: ControllerState | None) -> None:
        process, refused = node.process, node.refused_in
        known = self._known.get(node.name)
        if known is None or known.process is not process:
            known = self._known[node.name] = _Known(process, len(refused))
        for segment in refused[known.refused :]:
            known.is_full = known.is_full or _is_in_use(process, segment)
        known.refused = len(refused)
        if node.disk.capacity - node.disk.used >= ROOM_BYTES:
            known.is_full = False
        answer_s = process.lifecycle.last_answer_s
        if answer_s == known.answer_s:
            return
        known.answer_s = answer_s
        before, known.wrong = known.wrong, set()
        if not known.is_full or state is None:
            return
        broker = state.brokers.get(process.lifecycle._config.node_id)
        if broker is None or broker.epoch != process.lifecycle.broker_epoch:
            return
        known.wrong = set(self._complaints(process, broker, state))
        for complaint in known.wrong & before:
            raise Violation("I-99", f"{node.name} has no room: {complaint}")

    def _complaints(
        self, process: Any, broker: Broker, state: ControllerState
    ) -> Iterator[Complaint]:
        full = ReplicaCondition.DISK_FULL
        named = [r for r in broker.offline_replicas if r.condition is full]
        if not named and any(
            broker.condition_of(*key) is None for key in process.replicas.partitions
        ):
            yield ("nothing of it is named to the controller",)
        for replica in named:
            self._sometimes["replica named for a full disk"] += 1
            partition = state.partition(replica.topic_id, replica.partition)
            if partition is None or broker.broker_id not in partition.isr:
                continue
            for other in partition.isr:
                member = state.brokers.get(other)
                if (
                    member is not None
                    and member.eligible
                    and member.directory_id == partition.directory_of(other)
                    and member.condition_of(partition.topic_id, partition.index) is None
                ):
                    yield (replica.partition, partition.partition_epoch, "is in the ISR", other)


def _is_in_use(process: Any, segment: str) -> bool:
    """True if the segment is of a replica in use. A replica that was not loaded for want of room is
    out of service, and is no evidence about the others.
    """
    log = posixpath.dirname(segment)
    return any(partition.log.path == log for partition in process.replicas.partitions.values())
