"""The scene of a strike: the world, the oracles' state, and time."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.topology.topology import COMPACTED, CROWD
from strandline_proof.sim.workload.churn import CHURN
from strandline_proof.sim.workload.many_partitions import Crowd

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.watch import Oracles
    from strandline_proof.sim.workload.churn import Churn
    from strandline_proof.sim.workload.compacted_topic import Compaction

NO_LEADER = -1


class Scene:
    """The scene. `over` is set when everything heals: no fault strikes after that."""

    def __init__(self, world: World, oracles: Oracles) -> None:
        self.world = world
        self.oracles = oracles
        self.over = False
        self.struck: Counter[str] = Counter()
        """The number of faults of each kind that have really struck."""
        self.rng = random.Random(f"strikes {world.seed}")
        """The generator for a fault's chances; drawing from it changes no other draw."""
        self.on_event: Callable[[str], None] = lambda event: None
        """Called with each event that faults may wait for."""
        self.churn: Churn | None = None
        self.compaction: Compaction | None = None
        self.crowd = Crowd(world, oracles) if world.topology.crowd > 0 else None
        self.pending: Callable[[], None] | None = None
        """The step required before anything is well again, if something waits for a person."""
        self.doubles: dict[Node, Callable[[], None]] = {}
        """Processes that pose as another server, and how each is ended for good (P-71)."""
        self.moves: list[tuple[int, list[int]]] = []
        """The topic's partitions with a requested reassignment, and the target brokers."""
        self._clients: dict[str, Node] = {}
        self._mains: dict[str, Any] = {}

    def beside(self) -> dict[str, Churn | Compaction | Crowd]:
        """Clients of topics beside the main one, by their nodes."""
        found = {CHURN: self.churn, COMPACTED: self.compaction, CROWD: self.crowd}
        return {name: clients for name, clients in found.items() if clients is not None}

    def node(self, name: str) -> Node:
        return self.world.nodes[name]

    def later(self, delay_s: float, act: Callable[..., object], *arguments: Any) -> None:
        self.world.loop.post(delay_s, None, act, *arguments)

    def repeat(self, times: int, every_s: float, act: Callable[[int], object]) -> None:
        """Calls `act(0)` now, `act(1)` after `every_s`, and so on, until everything heals."""

        def once(number: int) -> None:
            if self.over:
                return
            act(number)
            if number + 1 < times:
                self.later(every_s, once, number + 1)

        once(0)

    def is_busy(self, name: str) -> bool:
        client = self._clients.get(name)
        return client is not None and client.running

    def run_client(self, name: str, main: Any) -> None:
        """Runs a client on an undisturbed machine of its own."""
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = self.world.add_node(name, self._main_of(name))
        self._mains[name] = main
        client.start()

    def _main_of(self, name: str) -> Any:
        return lambda node, runtime, stop: self._mains[name](node, runtime, stop)

    def start(self, node: Node) -> None:
        """Starts a node. A client that healing has started, and that was then told to end, stays
        ended; so does a double that is gone for good.
        """
        if node in self.world.doubles and node not in self.doubles:
            return
        if not self.over or node.name in self.world.topology.servers:
            node.start()

    def darken(self, nodes: list[Node], restart_s: float, survival: float) -> None:
        """Cuts the power of all of these, and restores it after `restart_s`."""
        struck = [node for node in nodes if node.running]
        for node in struck:
            node.power_off(survival)
            self.later(restart_s, self.start, node)
        self.oracles.on_power_lost(struck)
