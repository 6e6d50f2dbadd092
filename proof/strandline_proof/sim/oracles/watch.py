"""All oracles of a run, and the events that they receive."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline import StrandlineError
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_chaos.checkers import REMOVED
from strandline_chaos.excused import Excuse
from strandline_chaos.history import History
from strandline_proof.sim.oracles.controller.control import ControlOracle
from strandline_proof.sim.oracles.controller.decisions import DecisionOracle
from strandline_proof.sim.oracles.controller.fencings import FencingOracle
from strandline_proof.sim.oracles.controller.full_disks import FullDiskOracle
from strandline_proof.sim.oracles.controller.heartbeats import HeartbeatOracle
from strandline_proof.sim.oracles.controller.metadata import MetadataOracle
from strandline_proof.sim.oracles.controller.store import StoreOracle
from strandline_proof.sim.oracles.groups.coordinators import Coordinators
from strandline_proof.sim.oracles.partition.compaction import CompactionOracle
from strandline_proof.sim.oracles.partition.deletions import METHOD as DELETE
from strandline_proof.sim.oracles.partition.deletions import DeletionOracle
from strandline_proof.sim.oracles.partition.ends import EndOracle
from strandline_proof.sim.oracles.partition.expiry import ExpiryOracle
from strandline_proof.sim.oracles.process.disks import check_disk
from strandline_proof.sim.oracles.process.leaks import left_by
from strandline_proof.sim.oracles.process.shutdowns import LeaveOracle, MarkerOracle
from strandline_proof.sim.oracles.replica.applied import METHOD as PUSH
from strandline_proof.sim.oracles.replica.applied import AppliedOracle
from strandline_proof.sim.oracles.replica.epochs import EpochOracle
from strandline_proof.sim.oracles.replica.fetches import METHOD as FETCH
from strandline_proof.sim.oracles.replica.fetches import FetchOracle
from strandline_proof.sim.oracles.replica.leaders import LeaderOracle
from strandline_proof.sim.oracles.replica.looks import Look
from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle
from strandline_proof.sim.oracles.transactions.watch import TransactionOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import CONTROLLER, TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_chaos.history import Positioned
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.partition.committed import Committed

DISK_REASONS: Final = ("[Errno 5]", "[Errno 28]", "Input/output error", "No space left")
"""Parts of a process's last error that mean that its disk has failed."""
IDENTITY_REASON: Final = "meta.properties does not read"
DOUBLE_REASONS: Final = (
    "has been replaced by another",
    "is in use by a live process",
    "is locked by another running process",
)
"""Parts of a process's last error that mean that another process took its place (P-71)."""


class Oracles:
    """The oracles. They hook themselves into `world`: after every step, at every exit, at every
    loss of power.
    """

    def __init__(self, world: World) -> None:
        self.sometimes: Counter[str] = Counter()
        self.control = ControlOracle(self.sometimes, world.nodes[CONTROLLER].disk)
        self.control.now = lambda: world.loop.now
        self.replicas = ReplicaOracle(world.members, world.topology, self.control, self.sometimes)
        self.replicas.log_starts.on_removed = self._on_removed
        self.replicas.excuses.on_over = self._on_excuse_over
        self._over: dict[int, int] = {}
        """The event of the history after which each partition is judged again."""
        self.applied = AppliedOracle(world.nodes, self.control.decided, self.replicas)
        self.applied.is_obeyed = lambda: not self.old_store
        self.fetches = FetchOracle(world.nodes)
        self.deletions = DeletionOracle(world.nodes, world.members, self.control, self.replicas)
        told = self.applied, self.fetches
        self.leaders = LeaderOracle(
            world.members, world.topology, self.control, self.replicas, *told
        )
        self.epochs = EpochOracle(self.control, self.replicas)
        self.decisions = DecisionOracle(world, self.control, self.leaders, self.applied)
        self.fencings = FencingOracle(world.members, self.control, world.loop)
        self.markers = MarkerOracle(self.replicas)
        self.leaves = LeaveOracle(world.members, self.control, self.applied)
        self.metadata = MetadataOracle(self.sometimes)
        self.full_disks = FullDiskOracle(self.sometimes)
        self.heartbeats = HeartbeatOracle()
        self.store = StoreOracle(self.sometimes)
        self.ends = EndOracle(world, self.control, self.replicas)
        self.compaction = CompactionOracle(self.replicas, self.sometimes)
        self.expiry = self._expiry(world)
        self.groups = Coordinators(world, self.control, self.replicas)
        self.transactions = TransactionOracle(world, self.control, self.replicas, self.sometimes)
        world.network.overhear = self._overhear
        world.groups.is_judged = self.groups.is_judged
        world.clients.is_judged = self._is_judged
        self.damaged_stores: set[str] = set()
        """Servers whose disk has other bytes than were written in files that they cannot do
        without.
        """
        self.damaged_identities: list[str] = []
        """Servers whose directory has a changed identity file."""
        self.old_store = False
        """True if the controller runs on an old copy of its store: no broker may obey it (P-76)."""
        self._world = world
        self._controller = world.nodes[CONTROLLER]
        self._controller.on_step = self._after_controller
        self._controller.on_crash = self._check_disk
        world.on_exit = self._on_exit
        for node in world.brokers:
            self.watch_double(node)
        self.history = world.history = CheckedHistory(world, self)

    def _overhear(self, node: str, method: str) -> Any:
        """The listener to a call of that method of a server."""
        name = method.rpartition("/")[2]
        if name == FETCH:
            return self.fetches.overhear(node)
        if name == DELETE:
            return self.deletions.overhear(node)
        return self.applied.overhear(node) if name == PUSH else self.groups.overhear(node, name)

    def _expiry(self, world: World) -> ExpiryOracle | None:
        expiry_ms = world.topology.work.expiry_ms
        if expiry_ms == 0:
            return None
        return ExpiryOracle(expiry_ms, lambda: world.loop.now, self.sometimes)

    def watch_double(self, node: Node) -> None:
        """Watches a broker's process, whichever machine it is on."""
        node.on_crash = self._on_crash
        node.on_step = partial(self._after_broker, node)

    def on_store_restored(self) -> None:
        """The controller's decisions continue from what the brokers hold, not from its own earlier
        ones: its numbers are above all others (I-92).
        """
        self.old_store = False
        self.sometimes["store restored"] += 1
        self.control.on_restored()
        self.heartbeats.on_restored()
        self.replicas.on_restored()

    def on_copied(self, of: str, to: str) -> None:
        """A machine begins with a copy of another one's directory (P-71)."""
        self.compaction.on_copied(of, to)
        if self.expiry is not None:
            self.expiry.on_copied(of, to)

    def on_double_gone(self, node: Node) -> None:
        """A machine is gone for good, with its disk (P-71)."""
        self.on_power_lost([node], wiped=True)

    def _find_members(self, state: ControllerState) -> None:
        """Finds the machine that registered last under each broker's id."""
        members = self._world.members
        for number, broker in state.brokers.items():
            now = members[number]
            if _incarnation(now) == broker.incarnation_id:
                continue
            for node in (self._world.nodes[f"broker-{number}"], *self._world.doubles):
                if _incarnation(node) == broker.incarnation_id and node is not now:
                    self.sometimes["broker's id taken by another machine"] += 1
                    members[number] = node
                    self.replicas.on_replaced(now, node)

    def _after_broker(self, node: Node) -> None:
        process = node.process
        if process is None or not hasattr(process, "replicas"):
            return
        looks = self.replicas.looks
        for key, partition in process.replicas.partitions.items():
            if self.expiry is not None:
                self.expiry.on_step(node, key, partition)
            look = looks.get(partition)
            if look is None or not look.is_true_of(partition):
                self._look(node, key, partition)
        compacted = self.compaction.key
        if compacted is not None and compacted in process.replicas.partitions:
            self.compaction.on_step(node, process.replicas.partitions[compacted])
        self.metadata.on_step(node)
        self.applied.on_step(node)
        self.full_disks.on_step(node, self._decided())
        self.groups.on_step(node)
        self.transactions.on_step()
        if node.stopping:
            self.markers.on_step(node)
            self.leaves.on_step(node)

    def _decided(self) -> ControllerState | None:
        """The controller's decided state; None while it is down, or must not be obeyed."""
        process = self._controller.process
        return None if process is None or self.old_store else process.state

    def _look(self, node: Node, key: Key, partition: Partition) -> None:
        if partition.refused is not None:
            where = f"{node.name} {partition.name}"
            raise Violation("I-41", f"{where} was to cut what is committed: {partition.refused}")
        self.replicas.on_step(node, key, partition)
        self.leaders.on_step(node, key, partition)
        if partition.leader is not None:
            self.control.on_leads(key, partition.leader)
        self.epochs.on_step(node, key, partition)
        if partition.log.topic == CONSUMER_OFFSETS:
            self.groups.on_look(node, key, partition)
        self.transactions.on_look(node, key, partition)
        if partition.gate.locked():
            # Some of it can only be judged when the work under the gate is over.
            self.replicas.looks.pop(partition, None)
        else:
            self.replicas.looks[partition] = Look(partition)

    def _after_controller(self) -> None:
        process = self._controller.process
        if process is None or self.old_store:
            return
        self.store.on_step(process.log, process.state)
        if self._world.doubles:
            self._find_members(process.state)
        self.decisions.on_step(process.state)
        self.heartbeats.on_step(process.controller)
        self.fencings.on_step(process.controller)
        if self.control.on_step(process.state):
            self.compaction.on_decided(process.state)
            self.replicas.on_decided()
            self._world.partitions = max(self._world.partitions, len(self.control.main_keys()))

    def _on_exit(self, node: Node, why: str) -> None:
        """A process ends by itself only if its own disk has failed, or if another process says that
        it is the same server. Applications end by errors that they cannot decide.
        """
        if not why:
            if left := left_by(node, is_server=node.name in self._world.topology.servers):
                self._world.loop.fail(Violation("I-182", f"{node.name} ended and left {left}"))
            return
        self.sometimes["process ended by itself"] += 1
        if self.old_store and node is self._controller and "controller restore" in why:
            self.sometimes["old store refused"] += 1
            return
        if node.name in self.damaged_stores and "__cluster_metadata" in why:
            self.sometimes["damaged store refused"] += 1
            return
        if node.name in self.damaged_identities and IDENTITY_REASON in why:
            self.sometimes["damaged identity refused"] += 1
            return
        if any(reason in why for reason in DOUBLE_REASONS) and self._has_double(node):
            self.sometimes["process ended as its id or directory is another's"] += 1
            return
        disk_failed = node.disk.has_failed or node.disk.counts.get("disk full")
        if not (disk_failed and any(reason in why for reason in DISK_REASONS)):
            is_told = isinstance(node.died_of, StrandlineError)
            self._world.loop.fail(
                Violation("I-183" if is_told else "exit", f"{node.name} stopped: {why}")
            )

    def _has_double(self, node: Node) -> bool:
        """True if another process has posed as the same server."""
        return any(_server(double.name) == _server(node.name) for double in self._world.doubles)

    def _check_disk(self, node: Node) -> None:
        try:
            check_disk(node, self.sometimes)
        except Violation as violation:
            self._world.loop.fail(violation)

    def _on_crash(self, node: Node) -> None:
        self.compaction.on_crash(node)
        self._check_disk(node)
        try:
            self.markers.on_crash(node)
        except Violation as violation:
            self._world.loop.fail(violation)

    def on_power_lost(self, nodes: list[Node], *, wiped: bool = False) -> None:
        """Machines have lost power; `wiped`: nothing is left on their disks."""
        for node in nodes:
            self.replicas.on_power_lost(node, wiped=wiped)
            if node is self._controller:
                self._check_disk(node)
            else:
                self._on_crash(node)
        self.replicas.check_some_copy()

    def _on_removed(self, key: Key, offset: int) -> None:
        if key in self.control.main_keys():
            self.history.note(REMOVED, [key[1], offset])
            removed = self._world.clients.removed
            removed[key[1]] = max(offset, removed.get(key[1], 0))

    def _on_excuse_over(self, key: Key) -> None:
        if key in self.control.main_keys():
            self._over[key[1]] = len(self.history.events)

    def _ghosts(self, topic: str) -> list[Committed]:
        ghosts = self.replicas.committed
        return [ghosts[key] for key in self.control.keys_of(topic) if key in ghosts]

    def ghost_of(self, index: int, topic: str = TOPIC) -> Committed | None:
        return next((ghost for ghost in self._ghosts(topic) if ghost.index == index), None)

    def excused(self, topic: str = TOPIC) -> dict[int, Excuse]:
        """The partitions in which records may be missing, and until when."""
        found = {}
        for ghost in self._ghosts(topic):
            if ghost.excused is not None or ghost.lost_uncleanly:
                found[ghost.index] = Excuse(None)
            elif ghost.permitted is not None:
                over = self._over.get(ghost.index) if topic == TOPIC else None
                found[ghost.index] = Excuse(over, ghost.judged_from)
        return found

    def _is_judged(self, index: int) -> bool:
        """True if none of the partition's records that a client received may be missing."""
        ghost = self.ghost_of(index)
        return ghost is not None and not (
            ghost.permitted or ghost.excused or ghost.lost or ghost.given_up
        )

    def given_up(self, index: int, topic: str = TOPIC) -> bool:
        """True if the partition is not required ever to be whole again."""
        ghost = self.ghost_of(index, topic)
        return ghost is not None and ghost.given_up

    def loss_was_permitted(self, topic: str) -> bool:
        state = self.control.state
        topic_id = None if state is None else state.topic_ids.get(topic)
        ghosts = self.replicas.committed.items()
        return any(g.permitted is not None for (of, _), g in ghosts if of == topic_id)


def _server(name: str) -> str:
    """The id of the server that a process poses as: `1` of `broker-1` and of `twin1-1`."""
    return name.rpartition("-")[2]


def _incarnation(node: Node) -> str | None:
    lifecycle = getattr(node.process, "lifecycle", None)
    return None if lifecycle is None else lifecycle.incarnation_id


class CheckedHistory(History):
    """Compares clients' answers with the committed state at that moment: I-12, I-19."""

    def __init__(self, world: World, oracles: Oracles, topic: str = TOPIC) -> None:
        super().__init__(None, lambda: int(world.loop.now * 1e9))
        self.acknowledged = 0
        self._topic = topic
        self._is_main = topic == TOPIC
        self._world = world
        self._oracles = oracles

    def _check(self, invariant: str, key: int, offset: int, what: str) -> None:
        ghost = self._oracles.ghost_of(key, self._topic)
        end = 0 if ghost is None else ghost.seen_to
        if offset >= end and (ghost is None or ghost.excused is None):
            self._world.loop.fail(
                Violation(
                    invariant,
                    f"{self._topic} key {key}: offset {offset} was {what}, committed is {end}",
                )
            )

    def _count(self, key: int, what: str) -> None:
        if self._is_main and key >= self._world.topology.partitions:
            self._oracles.sometimes[what] += 1

    def sent(self, process: int, op: int, key: int, value: int, offset: int | None) -> None:
        super().sent(process, op, key, value, offset)
        self.acknowledged += 1
        self._count(key, "acknowledged in an added partition")
        if offset is not None:
            self._check("I-19", key, offset, "acknowledged")
            if self._is_main:
                self._oracles.ends.on_acknowledged(key, offset)

    def invoke_ends(self, process: int) -> int:
        op = super().invoke_ends(process)
        if self._is_main:
            self._oracles.ends.on_asked(op)
        return op

    def ended(self, process: int, op: int, ends: Mapping[int, int]) -> None:
        super().ended(process, op, ends)
        if not self._is_main:
            return
        try:
            self._oracles.ends.on_told(op, ends)
        except Violation as violation:
            self._world.loop.fail(violation)

    def polled(self, process: int, op: int, read: Mapping[int, Sequence[Positioned]]) -> Any:
        super().polled(process, op, read)
        for key, pairs in read.items():
            if pairs:
                self._count(key, "read from an added partition")
                self._check("I-12", key, pairs[-1][0], "read")
