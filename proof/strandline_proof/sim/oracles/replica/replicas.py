"""Every broker's logs and beliefs, after each of its steps.

- Offsets and epochs of a log rise (I-1, I-2), as one process appends them (I-3).
- Logs are equal below a batch that they share (I-4).
- The high watermark rises in order over records that all counted replicas hold (I-6, I-9, I-10,
I-13).
- A replica that may lead holds the committed records and truncates none of them (I-7, I-14 to I-17,
I-41).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.oracles.partition.committed import Committed
from strandline_proof.sim.oracles.partition.compacted import CompactedCommitted
from strandline_proof.sim.oracles.partition.excuses import ExcuseOracle
from strandline_proof.sim.oracles.partition.unclean import UncleanOracle, note_own_loss
from strandline_proof.sim.oracles.process.disks import check_start, unread_from
from strandline_proof.sim.oracles.replica.held import HeldOracle
from strandline_proof.sim.oracles.replica.log_starts import LogStartOracle
from strandline_proof.sim.oracles.replica.producers import check_producers
from strandline_proof.sim.oracles.replica.replica import Replica
from strandline_proof.sim.oracles.replica.rules import RuleOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import broker_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.core.controller.log.state import PartitionRegistration
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.replica.log_view import Entry, LogView
    from strandline_proof.sim.oracles.replica.looks import Look
    from strandline_proof.sim.topology.topology import Topology


class ReplicaOracle:
    def __init__(
        self,
        members: dict[int, Node],
        topology: Topology,
        control: ControlOracle,
        sometimes: Counter[str],
    ) -> None:
        self.committed: dict[Key, Committed] = {}
        self._nodes = members
        self._topology = topology
        self._control = control
        self._rules = RuleOracle(control)
        self._held = HeldOracle(members, control, always=topology.flush_policy == "always")
        self.excuses = ExcuseOracle(control, self._held, sometimes)
        self._unclean = UncleanOracle(control, sometimes)
        self._sometimes = sometimes
        self._replicas: dict[tuple[str, Key], Replica] = {}
        self.looks: dict[Partition, Look] = {}
        """Every replica at its last look; a replica without one will be looked at."""
        self.log_starts = LogStartOracle(sometimes)
        self.led_late: Counter[Key] = Counter()
        """The number of leaderships that began in an epoch that was already over."""
        self.compacted: Key | None = None
        """The partition in whose logs offsets may be missing."""
        self._removed: set[tuple[str, Key]] = set()
        """Replicas that a reassignment has removed, until they are looked at again."""

    def ghost(self, key: Key) -> Committed:
        found = self.committed.get(key)
        if found is None:
            topology = self._topology
            kind = CompactedCommitted if key == self.compacted else Committed
            found = self.committed[key] = kind(
                key[1],
                min_insync=min(topology.min_insync_replicas, topology.replication_factor),
                always=topology.flush_policy == "always",
            )
        return found

    def on_step(self, node: Node, key: Key, partition: Partition) -> None:
        known = self._replicas.get((node.name, key))
        if known is None or not known.is_unchanged(partition):
            self._on_change(node, key, partition, known)
            known = self._replicas[node.name, key]
        if partition.follower is not known.follower:
            known.follower, known.is_due = partition.follower, True
        if known.is_due and not partition.gate.locked():
            known.is_due = False
            if key != self.compacted and node.name not in self.ghost(key).damaged:
                check_producers(
                    partition,
                    known.view,
                    f"{node.name} {partition.name}",
                    may_forget=self._topology.work.expiry_ms > 0,
                )

    def _on_change(self, node: Node, key: Key, partition: Partition, known: Replica | None) -> None:
        log, where = partition.log, f"{node.name} {partition.name}"
        self._held.on_lives(node)
        ghost, end, start = self.ghost(key), log.log_end_offset, log.log_start_offset
        if known is None or known.log is not log:
            known = self._open(node, key, partition, known)
        if start != known.start:
            opened, retained = known.end < 0, self._control.is_main(key)
            if self.log_starts.on_change(
                key, partition, ghost, known.view, opened=opened, retained=retained
            ):
                known.is_due = True
        if end < known.end:
            gone = self._on_cut(node, key, known, where, end)
            ghost.on_given_up(node.name, node.incarnation, gone, known.high_watermark)
        if known.end == start < end and partition.leader is None:
            # The records that it takes from its leader need not continue its own, which are all
            # deleted.
            known.view.forget_removed()
        appended = known.view.read_to(end, where)
        for entry in appended:
            ghost.on_appended(entry, where)
            if partition.leader is not None:
                ghost.on_led(entry.epoch, node.name, node.incarnation)
        known.end, known.start = end, start
        self._check_order(partition, known, where)
        excused = ghost.permitted is not None or bool(ghost.lost)
        self._rules.on_change(node, key, partition, appended, where, excused=excused)
        self._check_role(node, key, partition, known)
        self._check_watermark(node, key, partition, known)
        known.leader, known.high_watermark = partition.leader, partition.high_watermark
        if partition.leader is not None:
            known.leader_partition_epoch = partition.leader.partition_epoch
            known.proposed = partition.leader.proposed
            self._check_maximal_isr(key, partition, where)
        ghost.on_holds_again(node.name, known.view)

    def _on_cut(self, node: Node, key: Key, known: Replica, where: str, end: int) -> list[Entry]:
        """Returns the entries that went, unless that was to heal damage."""
        partition, start = known.partition, known.log.log_start_offset
        self._sometimes["log truncated"] += 1
        known.is_due = True
        # Unreadable batches count as damaged too, and are healed by a copy.
        unread = unread_from(node.disk, known.log.path) if partition.healing else None
        gone, what = known.view.cut(end), f"{where}: cut to {end}"
        if not self.ghost(key).on_cut(gone, node.name, what, start=start, unread=unread):
            return gone
        self._sometimes["damage healed"] += 1
        if any(entry.end > start and self.ghost(key).has_committed(entry) for entry in gone):
            self._check_heals(node, key, what)
        return []

    def _check_heals(self, node: Node, key: Key, what: str) -> None:
        """I-15: by the present decisions, a replica that truncates committed records to heal may
        not be elected.
        """
        decided = self._control.partitions.get(key)
        if decided is None or decided.unclean_epoch == decided.leader_epoch:
            return  # it may be the leader that has not learned of its election yet
        if node.name in dict(self._views(key, (*decided.isr, *decided.elr))):
            raise Violation(
                "I-15",
                f"{what}, to heal, and it is in ISR {decided.isr} or ELR {decided.elr}",
            )

    def _open(self, node: Node, key: Key, partition: Partition, before: Replica | None) -> Replica:
        log, where = partition.log, f"{node.name} {partition.name}"
        view = self.ghost(key).view(node.disk, log.path)
        known = self._replicas[node.name, key] = Replica(node.incarnation, partition, view)
        if (node.name, key) in self._removed:
            # It has not learned of that yet: its records and beliefs come from many leaders.
            self._removed.discard((node.name, key))
            known.removed_in = view.directory()
            known.high_watermark = partition.high_watermark
            for entry in known.view.read_to(log.log_end_offset, where):
                self.ghost(key).on_appended(entry, where)
            self.ghost(key).on_added_again(node.name, known.view)
        if before is not None and before.is_opened_again(node.incarnation, view):
            self._held.on_over(node.name, key, before.incarnation, before.view)
            told, opened = before.log.log_end_offset, log.log_end_offset
            damage = self.ghost(key).damaged.get(node.name)
            check_start(node.disk, before.view, damage, told, opened, where)
            if told < before.end or self.ghost(key).ends_a_cut(node.name, opened):
                self._on_cut(node, key, before, where, told if told < before.end else opened)
            self._check_recovery(before, known, self.ghost(key), log.log_end_offset, where)
            self.log_starts.on_opened(node.name, key, partition, self.ghost(key))
            known.view.cut(known.view.start)
        return known

    def _check_recovery(
        self, before: Replica, known: Replica, ghost: Committed, end: int, where: str
    ) -> None:
        """I-7: the process opens what was on the disk when it began."""
        known.view.read_to(end, where)
        last = ghost.last
        if last is None or ghost.excused is not None:
            return
        if before.view.holds(last) and not known.view.holds(last):
            raise Violation(
                "I-7", f"{where}: committed offset {last.base} was on its disk, and is gone"
            )

    def _check_order(self, partition: Partition, known: Replica, where: str) -> None:
        low, end = known.start, known.end
        # A truncation under the gate is half done: nothing is served or decided meanwhile.
        if not 0 <= low <= partition.high_watermark <= end and not partition.gate.locked():
            raise Violation(
                "I-6",
                f"{where}: log start {low}, high watermark {partition.high_watermark}, end {end}",
            )
        entries = known.view.entries
        if len(entries) > 1 and entries[-1].epoch < entries[-2].epoch:
            raise Violation("I-2", f"{where}: epoch {entries[-1].epoch} at offset {end} is lower")
        if partition.state is not None and entries:
            if entries[-1].epoch > partition.state.leader_epoch:
                raise Violation(
                    "I-2",
                    f"{where}: a batch of epoch {entries[-1].epoch} in leader epoch"
                    f" {partition.state.leader_epoch}",
                )
            if partition.state.leader_epoch < known.epoch:
                raise Violation("I-30", f"{where}: its leader epoch fell from {known.epoch}")
            known.epoch = partition.state.leader_epoch

    def _check_role(self, node: Node, key: Key, partition: Partition, known: Replica) -> None:
        """I-14, when a leadership begins."""
        leader = partition.leader
        if leader is None or leader is known.leader:
            return
        known.is_due = True
        note_own_loss(node, partition, self.ghost(key), known.end)
        self.ghost(key).on_led(leader.leader_epoch, node.name, node.incarnation)
        decided = self._control.partitions.get(key)
        if decided is not None and decided.leader_epoch == leader.leader_epoch:
            self.ghost(key).check_complete(
                known.view,
                "I-14",
                f"{node.name}, elected in epoch {leader.leader_epoch},",
            )
            self.ghost(key).check_deleted(known.start, node.name)
        elif decided is not None:
            self.led_late[key] += 1

    def _check_watermark(self, node: Node, key: Key, partition: Partition, known: Replica) -> None:
        leader, mark = partition.leader, partition.high_watermark
        where = f"{node.name} {partition.name}"
        if leader is None:
            late = partition.leader_epoch < self.ghost(key).unclean_epoch
            if mark > known.high_watermark and not late:
                self.ghost(key).check_believed(mark, known.view, known.start, where)
            return
        if leader is known.leader and mark < known.high_watermark:
            raise Violation(
                "I-10",
                f"{where}: the high watermark of leader epoch {leader.leader_epoch} fell from"
                f" {known.high_watermark} to {mark}",
            )
        ghost = self.ghost(key)
        if leader is not known.leader or mark > known.high_watermark or ghost.excused is not None:
            if leader.leader_epoch < ghost.unclean_epoch:
                ghost.on_late_high_watermark(mark, known.view)
                return
            # A leader alone in its ISR commits in its first step; its earlier high watermark is not
            # its own.
            new = mark > max(ghost.end, known.high_watermark)
            at = self._control.decided.at(key, leader.partition_epoch)
            ghost.on_high_watermark(mark, known.view, where, None if at is None else at.isr)
            if ghost.excused is not None:
                self.excuses.on_mark(key, ghost, leader, mark, known, self._known(key))
            elif new:
                least = self._held.check(key, leader.partition_epoch, mark, known, self._known(key))
                ghost.min_insync = ghost.min_insync if least is None else least
                self._check_members(key)

    def _known(self, key: Key) -> dict[str, Replica]:
        return {name: known for (name, k), known in self._replicas.items() if k == key}

    def _views(self, key: Key, members: tuple[Any, ...]) -> Iterator[tuple[str, LogView]]:
        """The logs of brokers that run as the incarnation that the controller counts."""
        for member in members:
            node = self._nodes[int(member)]
            known = self._replicas.get((node.name, key))
            registered = self._control.brokers.get(int(member))
            epoch = getattr(getattr(node.process, "lifecycle", None), "broker_epoch", None)
            if (
                known is not None
                and node.running
                and registered is not None
                and registered.epoch == epoch
                and not registered.fenced
                and known.incarnation == node.incarnation
            ):
                yield node.name, known.view

    def _check_members(self, key: Key) -> None:
        """I-15: any choice that the controller could make now is safe."""
        decided = self._control.partitions.get(key)
        if decided is not None:
            for name, view in self._views(key, (*decided.isr, *decided.elr)):
                who = f"{name}, in ISR {decided.isr} or ELR {decided.elr},"
                self.ghost(key).check_complete(view, "I-15", who)

    def on_decided(self) -> None:
        """The controller has committed a decision."""
        for key, decided in self._control.partitions.items():
            if key in self.committed:
                removed = self._forget_removed(key, decided)
                ghost = self.committed[key]
                ghost.min_insync = min(ghost.min_insync, self._control.min_insync(decided))
                ghost.on_members(len(decided.isr), len(decided.elr), removed=removed)
                if removed:
                    left = (*decided.isr, *decided.elr)
                    ghost.on_left_with([self._nodes[int(member)].name for member in left])
                self._unclean.on_decided(decided, ghost)
                if self._unclean.is_allowed(key, decided):
                    leader = self._nodes[int(decided.leader)].name
                    self._unclean.on_elected(decided, ghost, self.find_view(leader, key))
                self._check_recovered(key, decided)
                self._check_members(key)
                self._check_quorum(key, decided)

    def _check_recovered(self, key: Key, decided: PartitionRegistration) -> None:
        """I-53: balanced recovery loses no record that a last member of the ISR still holds."""
        recovered = key in self._control.recovered
        for _, view in self._views(key, (decided.leader,)) if recovered else ():
            self._control.remembered.check_elected(key, self.ghost(key), view, self._views)

    def _forget_removed(self, key: Key, decided: PartitionRegistration) -> bool:
        """Records of a removed replica need not be there when it is a replica again."""
        here = [name for name, known in self._replicas if known == key]
        gone = [name for name in here if broker_id(name) not in decided.replicas]
        for name in gone:
            self._replicas.pop((name, key))
            self.looks = {p: look for p, look in self.looks.items() if p.key != key}
            self._removed.add((name, key))
            self.log_starts.forget(name, key)
            self.ghost(key).on_removed(name)
        return gone != []

    def _check_quorum(self, key: Key, decided: PartitionRegistration) -> None:
        node = self._nodes.get(int(decided.leader))
        replicas = getattr(node.process, "replicas", None) if node is not None else None
        if node is None or replicas is None or not node.running:
            return
        partition = replicas.partitions.get(key)
        if partition is not None and partition.leader is not None:
            self._check_maximal_isr(key, partition, f"{node.name} {partition.name}")

    def _check_maximal_isr(self, key: Key, partition: Partition, where: str) -> None:
        """I-16: a leader counts every replica that the controller may elect."""
        decided, leader = self._control.partitions.get(key), partition.leader
        assert leader is not None
        if decided is None or decided.leader_epoch != leader.leader_epoch:
            return
        counted = {int(m.broker_id) for m in leader.maximal_isr}
        if not set(decided.isr) <= counted:
            raise Violation(
                "I-16",
                f"{where}: it counts {sorted(counted)}, the controller has ISR {decided.isr}",
            )

    def on_power_lost(self, node: Node, *, wiped: bool) -> None:
        """The broker loses records with the disk of `node` (P-71); all of them, if it was
        `wiped`.
        """
        member = node in self._nodes.values()
        for (name, key), known in list(self._replicas.items()):
            if name != node.name:
                continue
            after = self.ghost(key).view(node.disk, known.view.path)
            after.read_valid()
            decided = self._control.partitions.get(key)
            counted = decided is not None and broker_id(name) in (*decided.isr, *decided.elr)
            if after.end < known.view.end:
                self._sometimes["records lost with the power"] += 1
            if member:
                self.ghost(key).on_power_lost(name, known.view, after, counted=counted, wiped=wiped)
            if wiped:
                self.log_starts.forget(name, key)
            self._held.on_over(name, key, known.incarnation, known.view)
            known.view = after

    def on_replaced(self, old: Node, new: Node) -> None:
        """Another machine is the broker now: the broker has lost the records that the machine's
        disk lacks (P-71).
        """
        for key, ghost in self.committed.items():
            known = self._replicas.get((old.name, key)) or self._replicas.get((new.name, key))
            if known is not None:
                view = ghost.view(new.disk, known.view.path)
                view.read_valid()
                ghost.on_replaced(old.name, new.name, view)

    def on_restored(self) -> None:
        """The controller has forgotten what it learned since the copy was made, and no broker
        repeats it.
        """
        for ghost in self.committed.values():
            ghost.on_reports_forgotten()

    def check_some_copy(self) -> None:
        """I-17: every committed record is on the disk of some machine."""
        for key, ghost in self.committed.items():
            last = ghost.last
            if last is None or ghost.excused is not None or key not in self._control.partitions:
                continue
            if not any(r.view.holds(last) for (_, k), r in self._replicas.items() if k == key):
                raise Violation(
                    "I-17", f"{ghost.name}: no replica holds committed offset {last.base}"
                )

    def known(self, node: Node, key: Key) -> LogView | None:
        """The log of a partition in the process that runs on `node`."""
        found = self._replicas.get((node.name, key))
        return found.view if found is not None and found.incarnation == node.incarnation else None

    def ends(self, key: Key) -> dict[str, int]:
        """The log end of each replica."""
        return {name: r.view.end for (name, k), r in self._replicas.items() if k == key}

    def view(self, name: str, key: Key) -> LogView:
        return self._replicas[name, key].view

    def find_view(self, name: str, key: Key) -> LogView | None:
        known = self._replicas.get((name, key))
        if known is None:
            return None
        known.view.forget_removed()
        return known.view
