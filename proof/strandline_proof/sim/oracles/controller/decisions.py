"""The origin of the controller's decisions, compared with the servers that they are about.

- A replica that joins an ISR holds what it must, as the registered incarnation (I-24, I-27).
- A replica that comes back without proof of a clean stop leaves the ISR (I-51).
- A controller writes in an epoch that is durable and its own (I-31), one decision in one batch
(I-82), and no offset of its log twice (I-92).
- Brokers are unfenced once they have applied their fencing (I-83).
- Brokers that are dead, or apply nothing, are fenced in time (P-61, I-94).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from strandline_proof.sim.oracles.replica.log_view import LogView
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import CONTROLLER, DATA

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import (
        Broker,
        ControllerState,
        PartitionRegistration,
    )
    from strandline_broker.core.replication.partition_state import IsrMember
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.controller.control import ControlOracle
    from strandline_proof.sim.oracles.replica.applied import AppliedOracle
    from strandline_proof.sim.oracles.replica.leaders import LeaderOracle
    from strandline_proof.sim.oracles.replica.log_view import Entry
    from strandline_proto.ids import BrokerId

METADATA: Final = f"{DATA}/__cluster_metadata-0"
FENCED_S: Final = 3.0
"""Time within which a well-running controller fences a dead broker: its session is a second, on
clocks that may differ by a fifth.
"""
DEAF_S: Final = 5.0
"""Time within which a leader that has not applied its election is fenced: a session, the difference
of clocks, and the start of a new stream.
"""
HEARD_S: Final = 0.3
"""Time after an answer during which a broker is within its session, even within a shortened one."""
LOOK_S: Final = 0.1
GAP_S: Final = 0.5
"""Time without a step after which a controller does not run well."""


class DecisionOracle:
    def __init__(
        self,
        world: World,
        control: ControlOracle,
        leaders: LeaderOracle,
        applied: AppliedOracle,
    ) -> None:
        self._controller = world.nodes[CONTROLLER]
        self._nodes = world.members
        self._were = dict(world.members)
        """The machine that was each broker when it registered last."""
        self._began_s = 0.0
        """The time at which the controller's process began."""
        self._always = world.topology.flush_policy == "always"
        self._control = control
        self._leaders = leaders
        self._applied = applied
        self._loop = world.loop
        self._state: ControllerState | None = None
        self._last_offset = -1
        self._view: LogView | None = None
        self._stepped_s = 0.0
        self._names: dict[int, int] = {}
        """CRC of the decision at each metadata offset."""
        self._deaf_s: dict[tuple[bytes, int], tuple[int, float]] = {}
        """Per partition, its leader epoch and the time for which the leader has not applied it."""
        self._looked_s = 0.0
        self._dead_s: dict[int, float] = {}
        """Time for which each unfenced broker has been dead while the controller ran well."""

    def on_step(self, state: ControllerState) -> None:
        """Checks decisions before the control oracle looks: its partitions and brokers are the
        earlier ones.
        """
        if state is not self._state:
            self._state, self._last_offset, self._view = state, state.last_offset, None
            self._began_s = self._loop.now
            self._dead_s.clear()
            self._deaf_s.clear()
        elif state.last_offset != self._last_offset:
            self._check_one_batch(state)
            self._last_offset = state.last_offset
            self._on_committed(state)
        self._check_dead(state)

    def _on_committed(self, state: ControllerState) -> None:
        known_partitions, known_brokers = self._control.partitions, self._control.brokers
        for partition in state.partitions():
            old = known_partitions.get((partition.topic_id, partition.index))
            if old is not None and old is not partition:
                self._check_isr(old, partition, state)
        for number, broker in state.brokers.items():
            before = known_brokers.get(number)
            if before is None or before is broker:
                continue
            if before.epoch != broker.epoch:
                if before.incarnation_id == broker.incarnation_id:
                    raise Violation(
                        "I-32",
                        f"broker {number} has epoch {broker.epoch} and had {before.epoch} in the"
                        " same life",
                    )
                self._check_reborn(int(number), before, broker, state)
            elif before.fenced and not broker.fenced:
                self._check_unfenced(int(number), before)

    def _check_one_batch(self, state: ControllerState) -> None:
        """I-82: one step commits one batch of the log, so a torn decision is torn as a whole."""
        if self._view is None:
            self._view = LogView(self._controller.disk, METADATA)
            known = self._view.read_to(self._last_offset + 1, CONTROLLER)
            self._check_kept(self._view, known, state)
        new = self._view.read_to(state.last_offset + 1, CONTROLLER)
        self._check_kept(self._view, new, state)
        if len(new) != 1:
            raise Violation(
                "I-82",
                f"the decision up to metadata offset {state.last_offset} is {len(new)} batches in"
                " the log: a crash may leave a part of it",
            )

    def _check_kept(self, view: LogView, entries: list[Entry], state: ControllerState) -> None:
        """I-31: a decision is durable before any broker receives it (P-29). I-92: an offset names
        one decision for ever.
        """
        for entry in entries:
            if self._names.setdefault(entry.base, entry.crc) != entry.crc:
                raise Violation(
                    "I-92", f"metadata offset {entry.base} names another decision than before"
                )
        if entries and not view.is_durable(entries[-1]):
            raise Violation(
                "I-31",
                f"the controller of epoch {state.controller_epoch} goes by metadata offset"
                f" {entries[-1].base}, which is not durable",
            )

    def _check_applied(self, state: ControllerState, since: float) -> None:
        """I-94: a live leader that has not applied its election does not stay the leader."""
        for partition in state.partitions():
            key = (partition.topic_id, partition.index)
            node = self._nodes.get(int(partition.leader))
            if node is None or not node.running or self._leads(key, partition):
                self._deaf_s.pop(key, None)
                continue
            epoch, deaf_s = self._deaf_s.get(key, (partition.leader_epoch, 0.0))
            deaf_s = deaf_s + since if epoch == partition.leader_epoch else 0.0
            self._deaf_s[key] = partition.leader_epoch, deaf_s
            if deaf_s > DEAF_S:
                raise Violation(
                    "I-94",
                    f"partition {key[1]}: {node.name} was elected in epoch"
                    f" {partition.leader_epoch} {deaf_s:.1f} s ago, has not applied that, and is"
                    " still the leader",
                )

    def _leads(self, key: tuple[bytes, int], partition: PartitionRegistration) -> bool:
        replica = self._replica(partition.leader, key)
        return replica is not None and replica.leader_epoch >= partition.leader_epoch

    def _check_isr(
        self, old: PartitionRegistration, new: PartitionRegistration, state: ControllerState
    ) -> None:
        """A member is added only by an AlterPartition request for this very state."""
        where = f"partition {new.index}"
        joins = set(new.isr) - set(old.isr)
        if not joins or new.leader_epoch != old.leader_epoch:
            return
        isr, partition_epoch = self._asked(old)
        if {m.broker_id for m in isr} != set(new.isr):
            return
        if partition_epoch != old.partition_epoch:
            raise Violation(
                "I-27",
                f"{where}: ISR {new.isr} was asked for at partition epoch {partition_epoch} and"
                f" committed on {old.partition_epoch}",
            )
        for member in isr:
            registered = state.brokers[member.broker_id].epoch
            if member.broker_id in joins and member.broker_epoch != registered:
                raise Violation(
                    "I-24",
                    f"{where}: broker {member.broker_id} was measured in epoch"
                    f" {member.broker_epoch} and joins the ISR in epoch {registered}",
                )
            if member.broker_id in joins:
                self._check_holds(new, member, where)

    def _check_holds(self, partition: PartitionRegistration, joins: IsrMember, where: str) -> None:
        """The new member has not truncated its log since it was measured."""
        key = (partition.topic_id, partition.index)
        leads, follows = self._replica(partition.leader, key), self._replica(joins.broker_id, key)
        if leads is None or leads.leader is None or follows is None:
            return
        lifecycle = self._nodes[int(joins.broker_id)].process.lifecycle
        end = follows.log.log_end_offset
        least = self._leaders.committed_to(key, leads.leader)
        if lifecycle.broker_epoch == joins.broker_epoch and end < least:
            raise Violation(
                "I-24",
                f"{where}: broker {joins.broker_id} joins the ISR of leader epoch"
                f" {partition.leader_epoch} and ends at {end}, committed is {least}",
            )

    def _replica(self, number: BrokerId, key: tuple[bytes, int]) -> Partition | None:
        """A running broker's replica of the partition."""
        node = self._nodes.get(int(number))
        replicas = None if node is None else getattr(node.process, "replicas", None)
        if node is None or not node.running or replicas is None:
            return None
        return cast("Partition | None", replicas.partitions.get(key))

    def _asked(self, partition: PartitionRegistration) -> tuple[tuple[IsrMember, ...], int]:
        """The leader's proposal, if it leads in the controller's leader epoch."""
        replica = self._replica(partition.leader, (partition.topic_id, partition.index))
        leader = None if replica is None else replica.leader
        if replica is None or leader is None or leader.leader_epoch != partition.leader_epoch:
            return (), -1
        return self._leaders.asked(replica) or ((), -1)

    def _check_reborn(self, number: int, old: Broker, new: Broker, state: ControllerState) -> None:
        """I-51 (P-73): a broker that may have lost records leaves the ISR, with a new leader epoch.
        So does another machine, whatever its disk says: a copy lacks everything after it (P-71).
        """
        node, wiped = self._nodes[number], old.directory_id != new.directory_id
        was, self._were[number] = self._were[number], node
        moved = was is not node
        if moved and wiped:
            self._check_was_silent(was, old)
        clean = not moved and (self._always or node.clean_epoch == old.epoch)
        if not node.running or (clean and not wiped):
            return
        lifecycle = getattr(node.process, "lifecycle", None)
        if lifecycle is None or lifecycle.incarnation_id != new.incarnation_id:
            return
        for partition in state.partitions():
            before = self._control.partitions.get((partition.topic_id, partition.index))
            if (
                before is not None
                and number in (*before.isr, *before.elr)
                and partition.leader_epoch == before.leader_epoch
            ):
                raise Violation(
                    "I-51",
                    f"partition {partition.index}: broker {number} was in ISR {before.isr} or ELR"
                    f" {before.elr}, is back after an unclean end, and the leader epoch is still"
                    f" {before.leader_epoch}",
                )

    def _check_was_silent(self, was: Node, old: Broker) -> None:
        """P-71: no other disk gets the id of a broker from which this controller has just had a
        heartbeat.
        """
        lifecycle = getattr(was.process, "lifecycle", None)
        if was.owner is None or not was.running or lifecycle is None or old.fenced:
            return
        if lifecycle.broker_epoch != old.epoch or lifecycle.last_answer_s is None:
            return
        heard_s = was.owner.to_global(lifecycle.last_answer_s)
        if not old.in_controlled_shutdown and heard_s > max(
            self._began_s, self._loop.now - HEARD_S
        ):
            raise Violation(
                "P-71",
                f"broker {old.broker_id} was answered {self._loop.now - heard_s:.3f} s ago, and"
                " another directory has its id now",
            )

    def _check_unfenced(self, number: int, old: Broker) -> None:
        """I-83: by its roles, the broker has applied its registration and its last fencing."""
        node = self._nodes[number]
        if not node.running:
            return
        process = node.process
        lifecycle = getattr(process, "lifecycle", None)
        if lifecycle is None or lifecycle.broker_epoch != old.epoch:
            return
        least = self._control.decided.fenced_at(number)
        if lacks := self._applied.lacks(node, least):
            raise Violation(
                "I-83",
                f"broker {number} is unfenced, was fenced or registered at {least}, and has not"
                f" carried that out: {lacks}",
            )

    def _check_dead(self, state: ControllerState) -> None:
        """P-61: a dead broker is fenced, whichever controller began to watch it."""
        now, since = self._loop.now, self._loop.now - self._stepped_s
        self._stepped_s = now
        faults = self._controller.disk.faults
        stalls = faults.stall > 0 or now < self._controller.stalled_until_s
        # Without room for its decision a controller decides nothing (it refuses by name).
        if since > GAP_S or faults.slow > 1 or stalls or self._controller.disk.is_short:
            self._looked_s = now
            return
        if now - self._looked_s > LOOK_S:
            self._check_applied(state, now - self._looked_s)
            self._looked_s = now
        for number, node in self._nodes.items():
            if node.running:
                if number in self._dead_s:
                    del self._dead_s[number]
                continue
            broker = state.brokers.get(number)  # type: ignore[call-overload]
            if broker is None or broker.fenced:
                continue
            self._dead_s[number] = dead_s = self._dead_s.get(number, 0.0) + since
            if dead_s > FENCED_S:
                raise Violation(
                    "I-88",
                    f"broker {number} has been dead for {dead_s:.1f} s under a controller that"
                    " runs, and is not fenced",
                )
