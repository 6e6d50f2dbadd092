"""Strikes at named places: an operation stands still there, or an answer is lost, and the plan's
faults learn that a window is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.kinds.places import PLACES
from strandline_proof.sim.kinds.windows import WINDOW
from strandline_proof.sim.strikes.places import Watch, as_told

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.strikes.scene import Scene


class WindowStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {
            "delay-at": self._delay_at,
            "lost-answer": self._lost_answer,
        }

    def _delay_at(self, node: str, point: str, count: int, for_s: float, late: bool) -> bool:
        """Stops the thread that comes to a place; `late`: the thread goes on, and its outcome is
        known so much later. Nothing happens if the event loop itself reaches the place, as nothing
        else would go on.
        """
        scene, struck = self._scene, self._scene.node(node)
        watch, left = Watch(struck, PLACES[point]), count

        def delay(operation: str, path: str) -> float:
            nonlocal left
            if scene.over:
                return 0.0  # the list from which it was taken is still iterated over
            if not watch.is_here(operation, path) or not struck.is_on_a_thread:
                return 0.0
            left -= 1
            if left > 0:
                return 0.0
            struck.disk.delays.remove(delay)
            where = {"node": node, "for_s": for_s}
            what = "is known late" if late else "stands still"
            scene.world.timeline.add("*", "fault", f"{operation} of {as_told(path)} {what}", where)
            scene.oracles.sometimes[f"{what}: {point}"] += 1
            scene.struck["delay-at"] += 1
            scene.on_event(WINDOW)
            if not late:
                return for_s
            struck.tell_late(for_s)
            return 0.0

        struck.disk.delays.append(delay)
        return False

    def _lost_answer(self, node: str, method: str, count: int) -> bool:
        scene, left = self._scene, count
        lost_answers = scene.world.network.echoer.lost_answers

        def is_lost(name: str, called: str) -> bool:
            nonlocal left
            if (name, called) != (node, method):
                return False
            left -= 1
            if left > 0:
                return False
            lost_answers.remove(is_lost)
            if scene.over:
                return False
            scene.world.timeline.add("*", "fault", f"an answer to {method} is lost", {"node": node})
            scene.oracles.sometimes[f"answer lost: {method}"] += 1
            scene.struck["lost-answer"] += 1
            scene.on_event(WINDOW)
            return True

        lost_answers.append(is_lost)
        return False
