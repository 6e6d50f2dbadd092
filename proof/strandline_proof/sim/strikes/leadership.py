"""Strikes by an administrator's elections, moves of leaders and added partitions, under load.

None of them may lose a record: a leader is only ever moved to a replica in sync (I-48).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from strandline.errors import InvalidPartitions
from strandline_proof.sim.strikes.orders import give_order
from strandline_proof.sim.topology.topology import ADDED_MAX, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline import Admin
    from strandline_proof.sim.strikes.scene import Scene

LEADERSHIP: Final = "leadership"


class LeadershipStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {
            "elect-preferred": self._elect,
            "move-leader": self._move,
            "add-partitions": self._add,
        }

    def _elect(self) -> bool:
        async def elect(admin: Admin) -> None:
            results = await admin.elect_leaders()
            self._count("leader elected by command", sum(r.error is None for r in results))

        return give_order(self._scene, LEADERSHIP, elect)

    def _move(self, partition: int, to: int) -> bool:
        async def move(admin: Admin) -> None:
            (result,) = await admin.move_leaders({(TOPIC, partition): to})
            self._count("leader moved by command", int(result.error is None))

        return give_order(self._scene, LEADERSHIP, move)

    def _add(self, count: int) -> bool:
        world = self._scene.world
        wanted = min(world.partitions + count, world.topology.partitions + ADDED_MAX)
        if wanted == world.partitions:
            return False

        async def add(admin: Admin) -> None:
            with contextlib.suppress(InvalidPartitions):  # an earlier try was carried out
                await admin.create_partitions({TOPIC: wanted})
            self._count("partitions added", 1)

        return give_order(self._scene, LEADERSHIP, add)

    def _count(self, name: str, times: int) -> None:
        if times > 0:
            self._scene.oracles.sometimes[name] += times
