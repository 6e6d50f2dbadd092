"""Strikes at processes and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.kinds.places import PLACES
from strandline_proof.sim.strikes.places import Watch, as_told

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.strikes.scene import Scene


class ProcessStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "stall": self._stall,
            "power": self._power,
            "crash-point": self._crash_point,
            "crash-loop": self._crash_loop,
            "crash-at": self._crash_at,
        }

    def _kill(self, node: str, restart_s: float) -> None:
        struck = self._scene.node(node)
        struck.kill()
        self._scene.later(restart_s, self._scene.start, struck)

    def _stop(self, node: str, restart_s: float) -> None:
        struck = self._scene.node(node)
        struck.stop()
        self._scene.later(restart_s, self._scene.start, struck)

    def _pause(self, node: str, for_s: float) -> None:
        struck = self._scene.node(node)
        struck.pause()
        self._scene.later(for_s, struck.resume)

    def _stall(self, node: str, for_s: float) -> None:
        """Stops its event loop; its threads go on (I-96)."""
        self._scene.node(node).stall(for_s)

    def _power(self, nodes: list[str], restart_s: float, survival: float) -> None:
        struck = [self._scene.node(name) for name in dict.fromkeys(nodes)]
        self._scene.darken(struck, restart_s, survival)

    def _crash_point(
        self, node: str, operation: int, nodes: list[str], restart_s: float, survival: float
    ) -> bool:
        """Cuts the power right before the disk of `node` does its next operation of that number;
        the other `nodes` lose power with it.
        """
        scene, disk = self._scene, self._scene.node(node).disk
        last = disk.operations + operation

        def crash(number: int, name: str) -> None:
            if number < last:
                return
            disk.crashes.remove(crash)
            if not scene.over:
                scene.world.timeline.add("*", "fault", f"power goes before {name}", {"node": node})
                scene.oracles.sometimes["power lost at a disk operation"] += 1
                scene.struck["crash-point"] += 1
                self._power([node, *nodes], restart_s, survival)

        disk.crashes.append(crash)
        return False

    def _crash_loop(self, node: str, times: int, lives_s: float) -> None:
        struck = self._scene.node(node)

        def once(number: int) -> None:
            struck.kill()
            self._scene.start(struck)

        self._scene.repeat(times, lives_s, once)

    def _crash_at(self, node: str, point: str, count: int, power: bool, restart_s: float) -> bool:
        """Ends the process, or its machine, right before a named operation."""
        scene, struck = self._scene, self._scene.node(node)
        watch, left = Watch(struck, PLACES[point]), [count]

        def crash(number: int, name: str) -> None:
            path = struck.disk.path
            if not watch.is_here(name, path):
                return
            left[0] -= 1
            if left[0] > 0:
                return
            struck.disk.crashes.remove(crash)
            if scene.over:
                return
            what = f"ends before {name} of {as_told(path)}"
            scene.world.timeline.add("*", "fault", what, {"node": node})
            scene.oracles.sometimes[f"ended before: {point}"] += 1
            scene.struck["crash-at"] += 1
            if power:
                scene.darken([struck], restart_s, 0.5)
            else:
                struck.kill()
                scene.later(restart_s, scene.start, struck)

        struck.disk.crashes.append(crash)
        return False
