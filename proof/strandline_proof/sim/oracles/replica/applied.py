"""The decisions that each broker has applied, from its pushes, its answers, and its real roles:
never from its own reports elsewhere.

An answer that says "applied" is compared with the roles (I-81). Each replica that the log assigns
to the broker by then, and that the answer does not call failed, is there in that epoch or a newer
one. It leads if it was to lead, or has led until its disk refused to read its log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.disk.disk import REFUSALS
from strandline_proof.sim.oracles.process.disks import is_about
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import broker_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.decided import Decided, DecidedLog, Key
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle

METHOD: Final = "LeaderAndIsr"


@dataclass(slots=True)
class _Told:
    """The answers of one life of a broker."""

    life: int
    offset: int = -1
    failed: set[Key] = field(default_factory=set)
    """Replicas that it could not bring to their roles, and has not since."""


class AppliedOracle:
    def __init__(
        self, nodes: Mapping[str, Node], decided: DecidedLog, replicas: ReplicaOracle
    ) -> None:
        self._nodes = nodes
        self._decided = decided
        self._replicas = replicas
        self._told: dict[str, _Told] = {}
        self._said: dict[str, list[Callable[[], None]]] = {}
        self.is_obeyed: Callable[[], bool] = lambda: True
        """True if brokers go by the controller's present log."""

    def overhear(self, node: str) -> _Heard:
        """A stream of pushes to that node begins."""
        return _Heard(self, node)

    def offset(self, node: Node) -> int:
        """The last offset that it has reported as applied."""
        told = self._told.get(node.name)
        return -1 if told is None or told.life != node.incarnation else told.offset

    def on_step(self, node: Node) -> None:
        """Judges the answers of the step that is over."""
        for judge in self._said.pop(node.name, ()):
            judge()

    def on_answer(self, name: str, push: Any, answer: Any) -> None:
        """I-81, judged when the step of the answer is over."""
        node = self._nodes.get(name)
        if node is None or not self.is_obeyed():
            return
        told = self._told.get(name)
        if told is None or told.life != node.incarnation:
            told = self._told[name] = _Told(node.incarnation)
        refused = answer.error_code != 0 or answer.want_full
        if not refused:
            told.failed -= set(_keys(push.leader_and_isr))
        told.failed.update(_keys(answer.topics))
        if refused:
            return
        told.offset = max(told.offset, answer.applied_metadata_offset)
        since = -1 if push.full else push.prev_metadata_offset
        check = partial(self._check, node, since, answer.applied_metadata_offset)
        self._said.setdefault(name, []).append(check)

    def _check(self, node: Node, since: int, offset: int) -> None:
        lacks = self.lacks(node, offset, since=since)
        if lacks:
            raise Violation(
                "I-81", f"{node.name} answers that it has applied metadata offset {offset}: {lacks}"
            )

    def lacks(self, node: Node, offset: int, *, since: int = -1) -> str:
        """A role that was decided after `since`, up to `offset`, and that the broker has not taken.
        A failure because of the disk is in its answer, which may still be under way.
        """
        process, me = node.process, broker_id(node.name)
        replicas = getattr(process, "replicas", None)
        if replicas is None or node.stopping:
            return ""
        told = self._told.get(node.name)
        failed = set() if told is None or told.life != node.incarnation else told.failed
        is_answered = self.offset(node) >= offset
        for key in list(self._decided.keys()):
            now = self._decided.newest(key)
            if now is None or now.offset <= since or me not in now.replicas or key in failed:
                continue  # it may have later metadata by now, and have dropped a replica
            then = self._decided.as_of(key, offset)
            if then is None or then.offset <= since or me not in then.replicas:
                continue
            partition = replicas.partitions.get(key)
            why = _lacks(partition, then, me)
            if not why or self._has_gone_out(node, key, partition, then):
                continue
            if is_answered or not _is_kept_from(node, partition):
                return f"partition {key[1]} {why}"
        return ""

    def _has_gone_out(self, node: Node, key: Key, partition: Any, then: Decided) -> bool:
        """True if it led, and serves nothing since its disk refused to read the log. Its heartbeats
        report that, not its answers, and the push that elects another leader may have to wait for
        an earlier one.
        """
        if partition is None or partition.role is not None:
            return False
        if _epochs(partition) != then.epochs:
            return False
        ghost = self._replicas.ghost(key)
        unread = node.disk.touched("read error", since=node.failed_before)
        return ghost.has_led(then.leader_epoch, node.name, node.incarnation) and is_about(
            f"{partition.log.path}/", unread
        )


class _Heard:
    """One stream: answers come in the order of the pushes."""

    def __init__(self, oracle: AppliedOracle, node: str) -> None:
        self._oracle = oracle
        self._node = node
        self._pushes: list[Any] = []

    def on_read(self, message: Any) -> None:
        self._pushes.append(message)

    def on_said(self, message: Any) -> None:
        self._oracle.on_answer(self._node, self._pushes.pop(0), message)


def _is_kept_from(node: Node, partition: Any) -> bool:
    """True if the disk has refused an operation on the replica to this life of the node, or on any
    replica if it is not here.
    """
    refused = node.disk.touched("misread", *REFUSALS, since=node.failed_before)
    refused |= node.disk.no_room
    return bool(refused) if partition is None else is_about(f"{partition.log.path}/", refused)


def _keys(topics: Iterable[Any]) -> Iterable[Key]:
    for topic in topics:
        for partition in topic.partitions:
            yield topic.topic_id, partition.partition_index


def _lacks(partition: Any, then: Decided, me: int) -> str:
    if partition is None:
        return f"is not here, and was decided at {then.epochs} (leader epoch, partition epoch)"
    if partition.gate.locked():
        return ""  # its role begins or ends
    epochs = _epochs(partition)
    if epochs is None or epochs < then.epochs:
        return f"is at {epochs} (leader epoch, partition epoch), {then.epochs} was decided"
    leads = None if partition.leader is None else partition.leader.leader_epoch
    if epochs == then.epochs and then.leader == me and leads != then.leader_epoch:
        return f"was to lead in epoch {then.leader_epoch}, and leads in {leads}"
    return ""


def _epochs(partition: Any) -> tuple[int, int] | None:
    state = partition.state
    return None if state is None else (state.leader_epoch, state.partition_epoch)
