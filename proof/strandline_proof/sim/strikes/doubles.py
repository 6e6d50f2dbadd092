"""Strikes by processes that pose as a server which already runs (P-71).

A `twin` is another machine with a broker's id: a virtual machine that was started twice, with a
copy of the data directory as it was then, or a new one with the wrong id and an empty disk. It goes
after a while, for good, with its disk. A `second` is another process on the very same directory,
whose lock must keep it out.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.disk.disk import UNREAD
from strandline_proof.sim.disk.parts import Directory
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.strikes.scene import Scene

AGAIN_S: Final = 0.3
"""Delay after which an ended twin is restarted, if it is."""
SECOND_S: Final = 0.5
"""Time that a second process may take to find out that it is one."""


class DoubleStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._twins: dict[str, Node] = {}
        self.strikes: dict[str, Callable[..., object]] = {
            "twin": self._twin,
            "second": self._second,
        }

    def _twin(self, node: str, disk: str, for_s: float, again: bool) -> bool:
        scene, struck = self._scene, self._scene.node(node)
        if node == CONTROLLER or node in self._twins or struck in scene.doubles:
            return False
        if not self._is_well(struck):
            return False
        twin = self._twins[node] = scene.world.add_double("twin", struck)
        if disk == "copy":
            twin.disk.root = copy.deepcopy(struck.disk.root)
            settle(twin.disk.root)
            scene.oracles.on_copied(node, twin.name)
        scene.oracles.watch_double(twin)
        until_s = scene.world.loop.now + for_s
        ended = twin.on_exit

        def on_exit(double: Node, why: str) -> None:
            ended(double, why)
            if again and scene.world.loop.now + AGAIN_S < until_s:
                scene.later(AGAIN_S, start)

        def start() -> None:
            if not scene.over and twin in scene.doubles:
                twin.start()

        def goes() -> None:
            if scene.doubles.pop(twin, None) is not None:
                del self._twins[node]
                twin.power_off(1.0)
                twin.disk.wipe()
                scene.oracles.on_double_gone(twin)

        twin.on_exit = on_exit
        scene.doubles[twin] = goes
        twin.start()
        scene.later(for_s, goes)
        return True

    def _is_well(self, struck: Node) -> bool:
        """True if the copied disk holds what was written, and no proof of an orderly end."""
        if struck.process is None or not struck.running or struck.stopping:
            return False
        if struck.disk.has_failed or any(struck.disk.counts.get(what) for what in UNREAD):
            return False
        ghosts = self._scene.oracles.replicas.committed.values()
        return not any(struck.name in ghost.damaged for ghost in ghosts)

    def _second(self, node: str) -> bool:
        scene, struck = self._scene, self._scene.node(node)
        if struck.process is None or not struck.running or struck in scene.doubles:
            return False
        if scene.world.loop.now < 1.0:
            return False
        second = scene.world.add_double("second", struck)
        second.disk = struck.disk
        life = struck.incarnation

        def look() -> None:
            if second.process is None or not struck.running or struck.incarnation != life:
                return
            violation = Violation("P-71", f"a second process uses the directory of {node}")
            scene.world.loop.fail(violation)

        def goes() -> None:
            if scene.doubles.pop(second, None) is not None:
                second.kill()

        second.on_step = look
        scene.doubles[second] = goes
        rate, no_room = struck.disk.faults.misread, set(struck.disk.no_room)
        second.start()
        # The disk goes on as it was for the first one.
        struck.disk.faults.misread = rate
        struck.disk.no_room |= no_room
        scene.later(SECOND_S, goes)
        return True


def settle(directory: Directory) -> None:
    """Makes everything in the directory durable."""
    directory.durable = dict(directory.entries)
    for node in directory.entries.values():
        if isinstance(node, Directory):
            settle(node)
        else:
            node.before.clear()
            node.lost.clear()
            node.durable_size = len(node.data)
