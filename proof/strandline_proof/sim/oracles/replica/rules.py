"""Rules for one replica in one step, whatever its role.

- Too few replicas in sync: no append with acks=all (I-20).
- A leader never proposes to remove itself (I-26). It recomputes its high watermark after every
relevant change (I-29), by the controller's minimum (I-91).
- Pushes are applied in order and by topic id (I-34, I-36).
- A replica is noted as hosted before it serves or fetches (P-20).
- An epoch is durable before it is served (I-46).
- Retention takes committed segments (I-74).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.oracles.violation import Violation, told_isr
from strandline_proof.sim.topology.topology import DATA, LOOSE
from strandline_proof.sim.topology.topology import broker_id as id_of
from strandline_proto.ids import TopicId, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from strandline_broker.core.replication.leader import Leader
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.replica.log_view import Entry
    from strandline_proto.ids import BrokerId

EPOCHS: Final = "leader-epoch-checkpoint"
STATE: Final = f"{DATA}/strandline-state"


class _Seen:
    __slots__ = ("epochs", "leader", "start")

    def __init__(self) -> None:
        self.epochs = (-1, -1)
        self.leader: Leader | None = None
        self.start = -1


class RuleOracle:
    """The rules. They are checked for a replica with a change; `Partition` is of one process."""

    def __init__(self, control: ControlOracle) -> None:
        self._control = control
        self._seen: dict[Partition, _Seen] = {}

    def on_change(
        self,
        node: Node,
        key: Key,
        partition: Partition,
        appended: list[Entry],
        where: str,
        *,
        excused: bool = False,
    ) -> None:
        """Checks the rules. `excused`: committed records of the partition may be missing."""
        seen = self._seen.get(partition)
        if seen is None:
            seen = self._seen[partition] = _Seen()
            if partition.log.topic_id != key[0]:
                raise Violation("I-36", f"{where}: its log is of topic {partition.log.topic_id!r}")
        leader, start = partition.leader, partition.log.log_start_offset
        if start < seen.start and not excused:
            raise Violation("I-74", f"{where}: its log start fell from {seen.start} to {start}")
        seen.start = start
        if partition.state is not None and seen.epochs < (0, 0) and not _is_hosted(node, key):
            raise Violation(
                "P-20",
                f"{where}: it has a role, and its disk does not know durably that it is here",
            )
        self._check_state(key, partition, seen, where)
        if leader is None:
            return
        if leader is not seen.leader:
            self._check_begun(node, partition, leader, seen, where)
            seen.leader = leader
        elif (
            appended
            and partition.log.topic != LOOSE  # appends with acks of 0 and 1 do not need the minimum
            and (self._control.spare(key, leader.partition_epoch) or 0) < 0
        ):
            raise Violation(
                "I-20",
                f"{where}: offset {appended[0].base} was appended with ISR {told_isr(leader.isr)},"
                " which is below min.insync.replicas, and all who write wait for all of it",
            )

    def _check_state(self, key: Key, partition: Partition, seen: _Seen, where: str) -> None:
        state = partition.state
        if state is None:
            return
        epochs = (state.leader_epoch, state.partition_epoch)
        if epochs < seen.epochs:
            raise Violation(
                "I-34", f"{where}: (leader epoch, partition epoch) fell from {seen.epochs}"
                f" to {epochs}"
            )  # fmt: skip
        if epochs == seen.epochs:
            return
        seen.epochs = epochs
        decided = self._control.partitions.get(key)
        if decided is None or epochs != (decided.leader_epoch, decided.partition_epoch):
            return
        least = self._control.min_insync(decided)
        if state.eff_min_insync != least:
            raise Violation(
                "I-91",
                f"{where}: it goes by min.insync.replicas={state.eff_min_insync}, the controller by"
                f" {least} at the same partition epoch {decided.partition_epoch}",
            )

    def _check_begun(
        self, node: Node, partition: Partition, leader: Leader, seen: _Seen, where: str
    ) -> None:
        before = seen.leader
        if before is not None and leader.leader_epoch <= before.leader_epoch:
            raise Violation(
                "I-34",
                f"{where}: it begins to lead in epoch {leader.leader_epoch} again, after"
                f" {before.leader_epoch}",
            )
        if not _is_noted(node, f"{partition.log.path}/{EPOCHS}", leader.leader_epoch):
            raise Violation(
                "I-46",
                f"{where}: it leads in epoch {leader.leader_epoch}, and its disk does not know"
                " that durably",
            )


def _is_noted(node: Node, path: str, epoch: int) -> bool:
    """True if the platter's checkpoint names the epoch."""
    try:
        directory, name = node.disk.parent(path)
    except OSError:
        return False
    inode = directory.durable.get(name)
    if not isinstance(inode, Inode) or inode.before:
        return False
    words = inode.as_written().decode("ascii", "replace").splitlines()[2:]
    return any(line.startswith(f"{epoch} ") for line in words)


def _is_hosted(node: Node, key: Key) -> bool:
    """True if the platter has the replica, as far as a start would read it."""
    try:
        directory, name = node.disk.parent(STATE)
    except OSError:
        return False
    inode = directory.durable.get(name)
    if not isinstance(inode, Inode):
        return False
    topic_id, end, hosted = topic_id_text(TopicId(key[0])), 0, False
    for number, line in enumerate(inode.as_written().split(b"\n")[:-1]):
        end += len(line) + 1
        if not inode.is_durable_to(end):
            break
        if number > 0:
            change = json.loads(line[0 if number == 1 else 9 :])
            for word, is_so in (("hosted", True), ("hosts", True), ("gives_up", False)):
                if key[1] in change.get(word, {}).get(topic_id, ()):
                    hosted = is_so
    return hosted


def check_advanced(
    leader: Leader, *, always: bool, barred: Collection[BrokerId], where: str
) -> None:
    """I-29: records that all counted replicas hold are committed in the very step of the last
    report.

    Applies to a leader with the minimum in its ISR. `barred`: replicas that may not join, as the
    leader's broker knows, and so are not waited for (I-9, P-58).
    """
    committed = leader.durable_offset if always else leader.log_end_offset
    counted = {member.broker_id for member in leader.maximal_isr}
    for broker_id, follower in leader.followers.items():
        end = follower.log_end_offset
        if broker_id in counted:
            if end is None:
                return
            committed = min(committed, end)
        elif end is not None and follower.caught_up_ms is not None and broker_id not in barred:
            committed = min(committed, end)  # one that is about to join may be waited for
    if committed > leader.high_watermark:
        raise Violation(
            "I-29",
            f"{where}: its high watermark is {leader.high_watermark}, everybody who counts holds"
            f" up to {committed}",
        )


def check_asked(node: Node, leader: Leader, where: str) -> None:
    """I-26: a leader does not propose to remove itself."""
    proposed = leader.proposed
    if proposed is None:
        return
    if int(id_of(node.name)) not in {member.broker_id for member in proposed}:
        told = told_isr(proposed)
        raise Violation("I-26", f"{where}: it asks for the ISR {told}, without itself")
