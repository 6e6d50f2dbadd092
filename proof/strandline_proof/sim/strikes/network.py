"""Strikes at links."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from strandline_proof.sim.network.duplicates import Echoes
from strandline_proof.sim.topology.topology import CONTROLLER, READER, WRITER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline_proof.sim.strikes.scene import Scene


class NetworkStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._network = scene.world.network
        self.strikes: dict[str, Callable[..., object]] = {
            "partition": self._partition,
            "isolate": self._isolate,
            "split": self._split,
            "slow-link": self._slow_link,
            "lossy-link": self._lossy_link,
            "flapping-link": self._flapping_link,
            "reset": self._reset,
            "half-open": self._half_open,
            "duplicate": self._duplicate,
        }

    def _partition(self, a: str, b: str, for_s: float, hold: bool, one_way: bool) -> None:
        self._network.partition(a, b, hold=hold, one_way=one_way)
        self._scene.later(for_s, self._network.heal, a, b)

    def _isolate(self, node: str, for_s: float, hold: bool) -> None:
        for other in self._scene.world.topology.nodes:
            if other != node:
                self._partition(node, other, for_s, hold, one_way=False)

    def _split(self, shape: str, for_s: float, hold: bool, one_way: bool) -> None:
        for a, b in self._cuts(shape):
            self._partition(a, b, for_s, hold, one_way)

    def _cuts(self, shape: str) -> Iterator[tuple[str, str]]:
        """The pairs of nodes that cannot reach each other."""
        topology = self._scene.world.topology
        brokers = list(topology.broker_names)
        half = len(brokers) // 2
        if shape == "halves":
            yield from ((a, b) for a in brokers[:half] for b in (CONTROLLER, *brokers[half:]))
        elif shape == "bridge":
            yield from ((a, b) for a in brokers[:half] for b in brokers[half + 1 :])
        elif shape == "ring":
            # The controller is one of the ring; each node reaches its two neighbours.
            around = [CONTROLLER, *brokers]
            for (i, a), (j, b) in combinations(enumerate(around), 2):
                if (j - i) not in (1, len(around) - 1):
                    yield a, b
        elif shape == "control":
            yield from ((CONTROLLER, broker) for broker in brokers)
        elif shape == "replicas":
            yield from combinations(brokers, 2)
        else:
            yield from ((c, server) for c in (WRITER, READER) for server in topology.servers)

    def _slow_link(self, a: str, b: str, for_s: float, ms: float) -> None:
        self._network.slow(a, b, ms)
        self._scene.later(for_s, self._network.heal, a, b)

    def _lossy_link(self, a: str, b: str, for_s: float, probability: float) -> None:
        self._network.lossy(a, b, probability)
        self._scene.later(for_s, self._network.heal, a, b)

    def _flapping_link(self, a: str, b: str, times: int, every_s: float, hold: bool) -> None:
        self._scene.repeat(
            times,
            every_s,
            lambda number: self._partition(a, b, every_s / 2, hold, one_way=False),
        )

    def _reset(self, a: str, b: str, times: int, every_s: float) -> None:
        self._scene.repeat(times, every_s, lambda number: self._network.reset(a, b))

    def _half_open(self, a: str, b: str) -> None:
        self._network.forget(a, b)

    def _duplicate(self, a: str, b: str, for_s: float, probability: float, late_s: float) -> bool:
        """Makes requests arrive twice; it has struck when the first one has."""
        scene, struck = self._scene, False

        def on_echo() -> None:
            nonlocal struck
            if not struck:
                struck = True
                scene.struck["duplicate"] += 1

        self._network.duplicate(a, b, Echoes(probability, late_s, on_echo))
        scene.later(for_s, self._network.heal, a, b)
        return False
