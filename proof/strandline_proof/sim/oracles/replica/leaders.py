"""Counts, proposals and answers of every leader, after each step of its broker.

- A leader counts fetches of incarnations that the ISR names, of logs that have not diverged from
its own, as far as they are durable where that is promised (I-90, I-39, I-93).
- It proposes replicas that have caught up, one proposal at a time (I-24, I-28).
- It returns no end below its epoch's start, and reports no written record as "not written" (I-11,
I-21).

The rules are compared with the real content of the other machines, so that a wrong leader is found
at once, and not only when records are gone because of it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.replica.leading import Leading
from strandline_proof.sim.oracles.replica.fetches import clock_s
from strandline_proof.sim.oracles.replica.log_view import BASE
from strandline_proof.sim.oracles.replica.rules import check_advanced, check_asked
from strandline_proof.sim.oracles.violation import Violation, told_isr, told_member
from strandline_proof.sim.topology.topology import LAG_MS_MAX, broker_id

if TYPE_CHECKING:
    from strandline_broker.core.replication.leader import Leader
    from strandline_broker.core.replication.partition_state import IsrMember
    from strandline_broker.core.replication.remote_replica import RemoteReplica
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.replica.applied import AppliedOracle
    from strandline_proof.sim.oracles.replica.fetches import Ends, FetchOracle
    from strandline_proof.sim.oracles.replica.log_view import Entry, LogView
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle
    from strandline_proof.sim.topology.topology import Topology


class _Seen:
    """One leader after the last step of its broker."""

    __slots__ = (
        "ends",
        "epoch",
        "first_isr",
        "followers",
        "high_watermark",
        "isr",
        "leader",
        "leading",
        "proposed",
    )

    def __init__(self) -> None:
        self.leading: Leading | None = None
        self.leader: Leader | None = None
        self.followers: dict[Any, RemoteReplica] = {}
        self.high_watermark = -1
        self.ends: Ends = []
        self.isr: tuple[IsrMember, ...] = ()
        self.first_isr: tuple[IsrMember, ...] = ()
        self.proposed: tuple[IsrMember, ...] | None = None
        self.epoch = -1
        """The partition epoch of the request for `proposed`."""


class LeaderOracle:
    def __init__(
        self,
        members: dict[int, Node],
        topology: Topology,
        control: ControlOracle,
        replicas: ReplicaOracle,
        applied: AppliedOracle,
        fetches: FetchOracle,
    ) -> None:
        self._nodes = members
        self._applied = applied
        self._fetches = fetches
        self._always = topology.flush_policy == "always"
        self._control = control
        self._replicas = replicas
        self._seen: dict[Partition, _Seen] = {}
        self._joining: dict[Key, int] = {}

    def asked(self, partition: Partition) -> tuple[tuple[IsrMember, ...], int] | None:
        """The ISR that its leader has requested, and the partition epoch of the request."""
        seen = self._seen.get(partition)
        if seen is None or seen.leader is None or seen.proposed is None:
            return None
        return seen.proposed, seen.epoch

    def committed_to(self, key: Key, leader: Leader) -> int:
        """The end of the records that a replica must hold to join the ISR of `leader`. Where
        committed records may be missing, it is the leader's own high watermark.
        """
        ghost = self._replicas.committed.get(key)
        return leader.high_watermark if ghost is None or ghost.excused is not None else ghost.end

    def joining(self, key: Key) -> int | None:
        """The broker that a leader of the partition has asked to add last."""
        return self._joining.get(key)

    def on_step(self, node: Node, key: Key, partition: Partition) -> None:
        leader, seen = partition.leader, self._seen.get(partition)
        if seen is None:
            seen = self._seen[partition] = _Seen()
        if leader is not seen.leader:
            where = f"{node.name} {partition.name}"
            if seen.leading is not None:
                _check_waiters(seen.leading, where)
            known = partition.log.leader_epochs.latest()
            if leader is not None and known != leader.leader_epoch:
                raise Violation(
                    "I-46",
                    f"{where}: it leads in epoch {leader.leader_epoch}, and the newest that its"
                    f" log knows is {known}",
                )
            seen.leading = partition.role if isinstance(partition.role, Leading) else None
            seen.leader, seen.followers, seen.high_watermark = leader, {}, -1
            seen.isr, seen.proposed, seen.epoch = (), None, -1
            seen.ends, seen.first_isr = [], () if leader is None else leader.isr
        if leader is not None:
            view = self._replicas.known(node, key)
            if view is not None and not seen.ends:
                seen.ends.append((clock_s(node), view.begins_at(leader.leader_epoch)))
            if view is not None and seen.ends[-1][1] != view.end:
                seen.ends.append((clock_s(node), view.end))
            self._on_leader(node, key, partition, leader, seen)

    def _on_leader(
        self, node: Node, key: Key, partition: Partition, leader: Leader, seen: _Seen
    ) -> None:
        proposed, counted_anew = leader.proposed, leader.isr is not seen.isr
        if proposed is not seen.proposed:
            where = f"{node.name} {partition.name}"
            check_asked(node, leader, where)
            self._check_proposal(key, leader, seen, where)
            self._check_removed(node, key, leader, seen, where)
            self._tell_joins(key, leader)
            counted_anew = True
        if counted_anew:
            seen.isr, seen.proposed, seen.epoch = leader.isr, proposed, leader.partition_epoch
        if counted_anew or seen.followers != leader.followers:
            where = f"{node.name} {partition.name}"
            self._check_isr(key, leader, where)
            _check_incarnations(leader, int(broker_id(node.name)), where)
            for number, follower in leader.followers.items():
                if follower is not seen.followers.get(number):
                    self._check_held(node, key, leader, int(number), follower, where)
            seen.followers = dict(leader.followers)
            spare = self._control.spare(key, leader.partition_epoch)
            if spare is not None and spare >= 0:
                barred = self._control.barred(key, as_of=self._applied.offset(node))
                check_advanced(leader, always=self._always, barred=barred, where=where)
        if leader.high_watermark != seen.high_watermark:
            seen.high_watermark = leader.high_watermark
            _check_released(partition, f"{node.name} {partition.name}")
            self._check_end_offset(key, leader, seen.ends[0][1], f"{node.name} {partition.name}")

    def _check_isr(self, key: Key, leader: Leader, where: str) -> None:
        """I-16: the leader counts by the ISR of its partition epoch."""
        decided = self._control.decided.at(key, leader.partition_epoch)
        members = sorted(int(m.broker_id) for m in leader.isr)
        if decided is not None and sorted(decided.isr) != members:
            raise Violation(
                "I-16",
                f"{where}: it counts {told_isr(leader.isr)} at partition epoch"
                f" {leader.partition_epoch}, and {decided.isr} was decided",
            )

    def _check_proposal(self, key: Key, leader: Leader, seen: _Seen, where: str) -> None:
        before, now = seen.proposed, leader.proposed
        if before is not None and seen.epoch == leader.partition_epoch:
            if now is not None and set(now) != set(before):
                raise Violation(
                    "I-28",
                    f"{where}: it asks for {told_isr(now)} while {told_isr(before)} is not answered"
                    " for",
                )
            decided = self._control.partitions.get(key)
            if (
                now is None
                and decided is not None
                and decided.leader_epoch == leader.leader_epoch
                and decided.partition_epoch == seen.epoch + 1
                and sorted(decided.isr) == sorted(m.broker_id for m in before)
            ):
                raise Violation(
                    "I-28",
                    f"{where}: it has taken back {told_isr(before)}, which the controller"
                    " committed",
                )
        members = {m.broker_id for m in leader.isr}
        for joins in now or ():
            if joins.broker_id in members:
                continue
            follower = leader.followers[joins.broker_id]
            least = max(leader.high_watermark, seen.ends[0][1])
            end = follower.log_end_offset
            if follower.broker_epoch != joins.broker_epoch or end is None or end < least:
                raise Violation(
                    "I-24",
                    f"{where}: it asks to add {told_member(joins)}, which was last heard as"
                    f" epoch {follower.broker_epoch} at offset {end}; {least} is needed",
                )

    def _check_removed(self, node: Node, key: Key, leader: Leader, seen: _Seen, where: str) -> None:
        """I-25: a member that the leader asks to remove was not caught up for long enough, by its
        fetches. A member of the ISR at the beginning of the leadership counts as caught up then.
        """
        proposed, now_s = leader.proposed, clock_s(node)
        for leaves in set(leader.isr) - set(leader.isr if proposed is None else proposed):
            follower = int(leaves.broker_id), int(leaves.broker_epoch)
            found = self._fetches.caught_up(node, key, leader.leader_epoch, follower, seen.ends)
            at_s = max(found.at_s, seen.ends[0][0] if leaves in seen.first_isr else found.at_s)
            if found.position == seen.ends[-1][1] or now_s - at_s < LAG_MS_MAX / 1000:
                raise Violation(
                    "I-25",
                    f"{where}: it asks to remove {told_member(leaves)}, which was caught up"
                    f" {now_s - at_s:.3f} s ago, and has said that it ends at {found.position} of"
                    f" {seen.ends[-1][1]}",
                )

    def _tell_joins(self, key: Key, leader: Leader) -> None:
        joins = set(leader.proposed or ()) - set(leader.isr)
        if joins:
            self._joining[key] = min(m.broker_id for m in joins)
            self._control.on_event("join")

    def _check_held(
        self,
        node: Node,
        key: Key,
        leader: Leader,
        number: int,
        follower: RemoteReplica,
        where: str,
    ) -> None:
        """I-39: records that a leader counts for a follower are there, durable under `always`
        (I-93).
        """
        end, other = follower.log_end_offset, self._nodes[number]
        if end is None or not other.running:
            return
        process = other.process
        replicas = getattr(process, "replicas", None)
        partition = None if replicas is None else replicas.partitions.get(key)
        theirs = self._replicas.known(other, key)
        if (
            partition is None
            or theirs is None
            or process.lifecycle.broker_epoch != follower.broker_epoch
        ):
            return  # another life of the follower
        if partition.leader_epoch > leader.leader_epoch:
            return  # the follower has moved on since, and its log may begin and end elsewhere
        start = follower.log_start_offset or 0
        self._replicas.log_starts.on_told(other.name, key, partition, start, where)
        if partition.leader_epoch < leader.leader_epoch:
            raise Violation(
                "I-33",
                f"{where}: it counts {other.name} up to {end} in leader epoch"
                f" {leader.leader_epoch}, and that broker is still in {partition.leader_epoch}",
            )
        if partition.gate.locked() or partition.healing:
            return  # the follower has truncated its log since
        ours = self._replicas.known(node, key)
        entry = None if ours is None else _last_below(ours, end)
        if entry is None or entry.base < theirs.start or entry.end <= leader.log_start_offset:
            return  # deleted records are not required of a follower
        if end <= start and self._replicas.ghost(key).has_deleted(end):
            return  # its log is empty, and deleted records are not required
        if not theirs.holds(entry):
            raise Violation(
                "I-39",
                f"{where}: it counts {other.name} up to {end}, which does not hold offset"
                f" {entry.base} of epoch {entry.epoch}",
            )
        if self._always and not theirs.is_durable(entry):
            raise Violation(
                "I-93",
                f"{where}: {other.name} has fetched from {end} and has not flushed offset"
                f" {entry.base}",
            )

    def _check_end_offset(self, key: Key, leader: Leader, began: int, where: str) -> None:
        """I-11: the newest leader returns no end offset below an earlier one. It returns none
        before its high watermark has reached `began`, the end of its log at its election.
        """
        ghost = self._replicas.committed.get(key)
        decided = self._control.partitions.get(key)
        if (
            ghost is not None
            and ghost.excused is None
            and decided is not None
            and decided.leader_epoch == leader.leader_epoch
            and began <= leader.high_watermark < ghost.end
        ):
            raise Violation(
                "I-11",
                f"{where}: in leader epoch {leader.leader_epoch} it tells"
                f" {leader.high_watermark} as the end offset, committed is {ghost.end}",
            )


def _check_incarnations(leader: Leader, me: int, where: str) -> None:
    """I-90: the position counted for a member of the ISR was reported by that incarnation of it."""
    for member in leader.maximal_isr:
        follower = leader.followers.get(member.broker_id)
        if (
            follower is not None
            and member.broker_id != me
            and follower.log_end_offset is not None
            and follower.broker_epoch != member.broker_epoch
        ):
            raise Violation(
                "I-90",
                f"{where}: it counts {follower.log_end_offset} for {told_member(member)}, which"
                f" epoch {follower.broker_epoch} has said",
            )


def _check_waiters(ended: Leading, where: str) -> None:
    """I-21 (P-25): the waits for appends of a leadership end with it."""
    for waiter in ended.appends.waiting():
        if not waiter.is_done:
            raise Violation(
                "I-21",
                f"{where}: an append of leader epoch {waiter.outcome.leader_epoch} is still waited"
                " for when that leadership is over",
            )


def _check_released(partition: Partition, where: str) -> None:
    """I-29 (P-66): a waiter whose records are committed is answered in the same step."""
    leading = partition.role
    assert isinstance(leading, Leading), where
    for waiter in leading.appends.waiting_for_commit():
        if not waiter.is_done and waiter.required_offset <= partition.high_watermark:
            raise Violation(
                "I-29",
                f"{where}: a producer waits for {waiter.required_offset}, and the high watermark"
                f" is {partition.high_watermark}",
            )


def _last_below(view: LogView, end: int) -> Entry | None:
    """The last entry that ends at or before `end`."""
    at = bisect_left(view.entries, end, key=BASE)
    return view.entries[at - 1] if at > 0 else None
