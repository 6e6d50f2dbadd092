"""Strikes: carries out a plan's faults on the world, each at its time or after its event."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from strandline_chaos.sim.disk import CAPACITY, DiskFaults

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_chaos.sim.node import Node
    from strandline_chaos.sim.plan import Fault, Plan
    from strandline_chaos.sim.watch import Oracles
    from strandline_chaos.sim.world import World

NO_LEADER = -1


def _is_out_of_use(node: Node) -> bool:
    """Whether a truncation has failed half-way, or a log could not be loaded: it is not used until
    it is loaded anew. What only a full disk kept out is loaded by itself.
    """
    replicas = getattr(node.process, "replicas", None)
    if replicas is None:
        return False
    lost = [key for key in replicas.refused if not replicas.waits_for_room(key)]
    return bool(lost) or any(p.log.damaged is not None for p in replicas.partitions.values())


class Nemesis:
    """`struck` counts faults that really did something."""

    def __init__(self, world: World, oracles: Oracles) -> None:
        self.struck: Counter[str] = Counter()
        self._world = world
        self._oracles = oracles
        self._armed: list[Fault] = []
        self._over = False
        self._strike: dict[str, Callable[..., None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "power": self._power,
            "crash-point": self._crash_point,
            "partition": self._partition,
            "isolate": self._isolate,
            "slow-link": self._slow_link,
            "lossy-link": self._lossy_link,
            "slow-disk": self._slow_disk,
            "stalling-disk": self._stalling_disk,
            "fsync-error": self._disk_rate("fsync_error"),
            "write-error": self._disk_rate("write_error"),
            "short-write": self._disk_rate("short_write"),
            "disk-full": self._disk_full,
            "clock-jump": self._clock_jump,
            "clock-rate": self._clock_rate,
        }

    def start(self, plan: Plan) -> None:
        """Before any node runs: a crash point may be the very first operation."""
        for fault in plan.faults:
            if fault.kind == "crash-point" and fault.at_s == 0 and fault.after is None:
                self._carry_out(fault)
            elif fault.after is None:
                self._later(fault.at_s, self._carry_out, fault)
            else:
                self._later(fault.at_s, self._armed.append, fault)

    def on_event(self, event: str) -> None:
        """Something happened that faults may wait for."""
        due = [fault for fault in self._armed if fault.after == event]
        for fault in due:
            self._armed.remove(fault)
            self._later(fault.delay_s, self._carry_out, fault)

    def _carry_out(self, fault: Fault) -> None:
        if self._over:
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
        self.struck[fault.kind] += 1
        self._strike[fault.kind](**arguments)

    def _name(self, node: str) -> str:
        """The node that is meant now by `leader-N`."""
        if not node.startswith("leader-"):
            return node
        index = int(node.rpartition("-")[2])
        for (_, number), partition in self._oracles.control.partitions.items():
            if number == index and partition.leader != NO_LEADER:
                return f"broker-{partition.leader}"
        return f"broker-{1 + index}"

    def _node(self, name: str) -> Node:
        return self._world.nodes[name]

    def _later(self, delay_s: float, act: Callable[..., object], *arguments: Any) -> None:
        self._world.loop.post(delay_s, None, act, *arguments)

    def heal(self) -> None:
        """No more faults; everything that can be put right is."""
        self._over = True
        self._armed.clear()
        self._world.timeline.add("*", "phase", "heal", {})
        self._world.network.heal()
        for node in self._world.nodes.values():
            node.resume()
            node.disk.faults = DiskFaults()
            node.disk.capacity = CAPACITY
            node.disk.crash = None
            if node.rate != 1.0:
                node.set_clock(rate=1.0)
            if node.disk.has_failed or _is_out_of_use(node):
                # What a failed disk has put out of service stays so until a restart.
                node.kill()
            node.start()

    # Processes and machines

    def _kill(self, node: str, restart_s: float) -> None:
        self._node(node).kill()
        self._later(restart_s, self._start, self._node(node))

    def _stop(self, node: str, restart_s: float) -> None:
        self._node(node).stop()
        self._later(restart_s, self._start, self._node(node))

    def _start(self, node: Node) -> None:
        """A client that healing has started, and that was then told to end, stays ended."""
        if not self._over or node.name in self._world.topology.servers:
            node.start()

    def _pause(self, node: str, for_s: float) -> None:
        self._node(node).pause()
        self._later(for_s, self._node(node).resume)

    def _power(self, nodes: list[str], restart_s: float, survival: float) -> None:
        struck = [self._node(name) for name in dict.fromkeys(nodes) if self._node(name).running]
        for node in struck:
            node.power_off(survival)
            self._later(restart_s, self._start, node)
        self._oracles.on_power_lost(struck)

    def _crash_point(
        self, node: str, operation: int, nodes: list[str], restart_s: float, survival: float
    ) -> None:
        """Power goes right before the disk of `node` does its next operation of that number; the
        other `nodes` go with it.
        """
        disk = self._node(node).disk
        last = disk.operations + operation

        def crash(number: int, name: str) -> None:
            if number < last:
                return
            disk.crash = None
            if not self._over:
                self._world.timeline.add("*", "fault", f"power goes before {name}", {"node": node})
                self._oracles.sometimes["power lost at a disk operation"] += 1
                self._power([node, *nodes], restart_s, survival)

        disk.crash = crash

    # Network

    def _partition(self, a: str, b: str, for_s: float, hold: bool, one_way: bool) -> None:
        self._world.network.partition(a, b, hold=hold, one_way=one_way)
        self._later(for_s, self._world.network.heal, a, b)

    def _isolate(self, node: str, for_s: float, hold: bool) -> None:
        for other in self._world.topology.nodes:
            if other != node:
                self._partition(node, other, for_s, hold, one_way=False)

    def _slow_link(self, a: str, b: str, for_s: float, ms: float) -> None:
        self._world.network.slow(a, b, ms)
        self._later(for_s, self._world.network.heal, a, b)

    def _lossy_link(self, a: str, b: str, for_s: float, probability: float) -> None:
        self._world.network.lossy(a, b, probability)
        self._later(for_s, self._world.network.heal, a, b)

    # Disks

    def _set_disk(self, node: str, for_s: float, **settings: float) -> None:
        disk = self._node(node).disk
        for name, value in settings.items():
            before = getattr(DiskFaults(), name)
            setattr(disk.faults, name, value)
            self._later(for_s, setattr, disk.faults, name, before)

    def _slow_disk(self, node: str, for_s: float, factor: float) -> None:
        self._set_disk(node, for_s, slow=factor)

    def _stalling_disk(self, node: str, for_s: float, probability: float, stall_s: float) -> None:
        self._set_disk(node, for_s, stall=probability, stall_s=stall_s)

    def _disk_rate(self, name: str) -> Callable[..., None]:
        def strike(node: str, for_s: float, rate: float) -> None:
            self._set_disk(node, for_s, **{name: rate})

        return strike

    def _disk_full(self, node: str, for_s: float, room: int) -> None:
        disk = self._node(node).disk
        disk.capacity = disk.used + room
        self._later(for_s, setattr, disk, "capacity", CAPACITY)

    # Clocks

    def _clock_jump(self, node: str, offset_s: float) -> None:
        self._node(node).set_clock(wall_offset_s=offset_s)

    def _clock_rate(self, node: str, rate: float, for_s: float) -> None:
        self._node(node).set_clock(rate=rate)
        self._later(for_s, lambda: self._node(node).set_clock(rate=1.0))
