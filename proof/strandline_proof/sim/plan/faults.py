"""The nemesis: carries out a plan's faults on the world, each at its time or after its event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from strandline_proof.sim.disk.disk import CAPACITY
from strandline_proof.sim.disk.parts import DiskFaults
from strandline_proof.sim.kinds.windows import WINDOW
from strandline_proof.sim.plan.moments import ROLES
from strandline_proof.sim.strikes import all_strikes
from strandline_proof.sim.strikes.scene import NO_LEADER, Scene
from strandline_proof.sim.topology.groups import group_name
from strandline_proof.sim.topology.topology import COORDINATOR
from strandline_proof.sim.topology.transactions import (
    COPIES,
    DECIDER,
    KEEPER,
    LEDGER,
    TRANSACTION_ROLES,
)
from strandline_proto.java_hash import partition_for

if TYPE_CHECKING:
    from collections import Counter

    from strandline_broker.core.controller.log.state import PartitionRegistration
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.watch import Oracles
    from strandline_proof.sim.plan.plan import Fault, Plan

LED: Final = {
    DECIDER: TRANSACTION_STATE,
    LEDGER: LEDGER,
    COPIES: COPIES,
    KEEPER: CONSUMER_OFFSETS,
}
"""The topic whose leaders each role of transactions means."""
LIMIT: Final = "checkpoint-limit-"
LINK_KINDS = ("partition", "slow-link")
BOOTS_S: Final = 0.3
"""Least time that a machine takes to start after a loss of power. It is longer than its earlier
messages take to arrive. An earlier registration that arrived after the new process's own would
count as another process's, and end the new process for good.
"""
BEFORE_HEALING_S: Final = 0.2
"""Time before healing at which a fault strikes at the latest without its event, to do something at
all.
"""


def _is_out_of_use(node: Node) -> bool:
    """True if a truncation has failed half-way, or a log could not be loaded: the log is not used
    until it is loaded again. A log that only a full disk kept out is loaded by itself.
    """
    replicas = getattr(node.process, "replicas", None)
    if replicas is None:
        return False
    lost = [k for k in replicas.logs.refused if not replicas.logs.waits_for_room(k)]
    logs = [p.log for p in replicas.partitions.values() if p.log.damaged is not None]
    return bool(lost) or any(may_be_cut(node.disk, log.path) for log in logs)


def may_be_cut(disk: SimDisk, path: str) -> bool:
    """True if a truncation of the log at `path` may have failed half-way. A truncation first writes
    a limit; if there was no room for that, nothing was cut.
    """
    refused = [file for file in disk.no_room if file.startswith(f"{path}/")]
    return not refused or not all(file.startswith(f"{path}/{LIMIT}") for file in refused)


class Nemesis:
    """`struck` counts faults that really did something."""

    def __init__(self, world: World, oracles: Oracles) -> None:
        self.unprompted = 0
        """The number of faults carried out although their event had not come."""
        self._world = world
        self._oracles = oracles
        self._armed: list[Fault] = []
        self._scene = Scene(world, oracles)
        self._scene.on_event = self.on_event
        self._strike = all_strikes(self._scene)

    @property
    def struck(self) -> Counter[str]:
        return self._scene.struck

    def start(self, plan: Plan) -> None:
        """Arms the plan's faults before any node runs: a crash point may be the very first
        operation.
        """
        for fault in plan.faults:
            if fault.kind == "crash-point" and fault.at_s == 0 and fault.after is None:
                self._carry_out(fault)
            elif fault.after is None:
                self._scene.later(fault.at_s, self._carry_out, fault)
            else:
                self._scene.later(fault.at_s, self._armed.append, fault)
                if plan.patience_s is not None:
                    last_s = max(fault.at_s, plan.chaos_s - BEFORE_HEALING_S)
                    without_s = min(fault.at_s + plan.patience_s, last_s)
                    self._scene.later(without_s, self._on_nothing_happened, fault)

    def on_event(self, event: str) -> None:
        """An event happened that faults may wait for."""
        due = [fault for fault in self._armed if fault.after == event]
        self._disarm(due)
        if event == WINDOW:
            self._oracles.sometimes["struck while a window was open"] += len(due)
        for fault in due:
            if fault.delay_s == 0 and fault.kind in LINK_KINDS:
                self._carry_out(fault)  # before what is to be sent now is on its way
            else:
                self._scene.later(fault.delay_s, self._carry_out, fault)

    def _on_nothing_happened(self, fault: Fault) -> None:
        if any(armed is fault for armed in self._armed):
            self._disarm([fault])
            self.unprompted += 1
            self._carry_out(fault)

    def _disarm(self, faults: list[Fault]) -> None:
        """Disarms these very faults: two faults of a plan may be equal."""
        for fault in faults:
            at = next(n for n, armed in enumerate(self._armed) if armed is fault)
            del self._armed[at]

    def _carry_out(self, fault: Fault) -> None:
        if self._scene.over:
            return
        arguments: dict[str, Any] = {}
        for name, value in fault.arguments.items():
            if name == "nodes":
                arguments[name] = [self._name(node) for node in value]
            else:
                arguments[name] = self._name(value) if name in ("node", "a", "b") else value
        if arguments.get("a", "") == arguments.get("b"):
            return
        self._world.timeline.add("*", "fault", f"{fault.kind}", dict(arguments))
        if self._strike[fault.kind](**arguments) is not False:
            self.struck[fault.kind] += 1

    def _name(self, node: str) -> str:
        """The node that `leader-N` and the like mean now."""
        role, _, number = node.rpartition("-")
        if role == COORDINATOR:
            return self._coordinator(int(number))
        if role in TRANSACTION_ROLES:
            return self._leader(LED[role], int(number))
        if role not in ROLES:
            return node
        index = int(number)
        for key in self._oracles.control.main_keys():
            partition = self._oracles.control.partitions[key]
            if key[1] == index and partition.leader != NO_LEADER:
                return self._machine(self._meant(role, key, partition))
        return f"broker-{1 + (index + ROLES.index(role)) % self._world.topology.brokers}"

    def _coordinator(self, group: int) -> str:
        """The broker that coordinates the group, or one that may come to."""
        partitions = self._world.topology.offsets_partitions
        return self._leader(CONSUMER_OFFSETS, partition_for(group_name(group), partitions))

    def _leader(self, topic: str, index: int) -> str:
        """The broker that leads the partition, or one that may come to."""
        topology, state = self._world.topology, self._oracles.control.state
        topic_id = None if state is None else state.topic_ids.get(topic)
        partition = self._oracles.control.partitions.get((topic_id or b"", index))
        if partition is not None and partition.leader != NO_LEADER:
            return self._machine(partition.leader)
        return f"broker-{1 + index % topology.brokers}"

    def _machine(self, broker: int) -> str:
        """The machine that is that broker: a twin while it has registered last (P-71)."""
        member = self._world.members.get(broker)
        return member.name if member in self._scene.doubles else f"broker-{broker}"

    def _meant(self, role: str, key: Key, partition: PartitionRegistration) -> int:
        """The broker in that role; another replica if no broker has it."""
        if role == "leader":
            return partition.leader
        others = [b for b in partition.replicas if b != partition.leader] or [partition.leader]
        heirs = sorted(others, key=lambda b: b not in partition.isr)
        if role == "joiner":
            return self._oracles.leaders.joining(key) or heirs[-1]
        return heirs[0] if role == "heir" else heirs[-1]

    @property
    def scene(self) -> Scene:
        return self._scene

    def heal(self) -> None:
        """Ends all faults, and repairs everything that can be repaired."""
        self._scene.over = True
        self._armed.clear()
        self._world.timeline.add("*", "phase", "heal", {})
        if self._scene.pending is not None:
            self._scene.pending()
        for end in list(self._scene.doubles.values()):
            end()
        self._world.network.heal()
        self._world.network.echoer.lost_answers.clear()
        for name in self._world.topology.nodes:
            node = self._world.nodes[name]
            node.resume()
            node.disk.faults = DiskFaults()
            node.disk.capacity = CAPACITY
            node.disk.crashes.clear()
            node.disk.delays.clear()
            if node.rate != 1.0:
                node.set_clock(rate=1.0)
            if node.disk.has_failed or _is_out_of_use(node):
                # A log that a failed disk has put out of service stays so until a restart.
                node.kill()
            boots_s = node.dark_s + BOOTS_S - self._world.loop.now
            if boots_s > 0:
                self._scene.later(boots_s, node.start)
            else:
                node.start()
