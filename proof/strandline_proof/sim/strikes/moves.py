"""Strikes that reassign replicas, then cancel the reassignment or replace it by another one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline import Admin
from strandline.errors import (
    InvalidReplicaAssignment,
    NoReassignmentInProgress,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline_proof.sim.strikes.copies import is_damaged_alone
from strandline_proof.sim.topology.topology import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.strikes.scene import Scene
    from strandline_runtime.runtime import Runtime

MOVERS: Final = ("mover-1", "mover-2")
"""Two administrators, who act independently."""
REQUEST_MS: Final = 1000
RETRY_S: Final = 0.1

Target = list[int] | None


class MoveStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {
            "reassign": self._reassign,
            "reassign-cancel": self._cancel,
            "reassign-override": self._override,
            "reassign-few": self._override,
        }

    def _reassign(self, partition: int, target: list[int]) -> bool:
        return self._ask_for(partition, [(0.0, target)])

    def _cancel(self, partition: int, target: list[int], then_s: float) -> bool:
        return self._ask_for(partition, [(0.0, target), (then_s, None)])

    def _override(self, partition: int, target: list[int], then_s: float, other: list[int]) -> bool:
        return self._ask_for(partition, [(0.0, target), (then_s, other)])

    def _ask_for(self, partition: int, wishes: list[tuple[float, Target]]) -> bool:
        """Makes one of the administrators request these targets in turn; None is a cancel."""
        scene = self._scene
        free = [name for name in MOVERS if not scene.is_busy(name)]
        if not free:
            return False

        async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            async with Admin(
                scene.world.topology.bootstrap,
                request_timeout_ms=REQUEST_MS,
                connect_timeout_ms=60_000,
                runtime=runtime,
            ) as admin:
                for pause_s, target in wishes:
                    await asyncio.sleep(pause_s)
                    await self._ask(admin, partition, target)

        scene.run_client(free[0], main)
        return True

    async def _ask(self, admin: Any, partition: int, target: Target) -> None:
        """Repeats the request until it is answered; a refusal is an answer."""
        scene = self._scene
        if target is None:
            await self._have(admin, partition, target)
            return
        scene.oracles.control.moves.on_asked(partition, target)
        scene.moves.append(wish := (partition, target))
        try:
            await self._have(admin, partition, target)
        finally:
            scene.moves.remove(wish)

    async def _have(self, admin: Any, partition: int, target: Target) -> None:
        scene = self._scene
        while not scene.over:
            if target is not None and is_damaged_alone(scene, partition, target):
                await asyncio.sleep(RETRY_S)
                continue
            try:
                (result,) = await admin.alter_partition_reassignments({(TOPIC, partition): target})
                if result.error is not None:
                    raise result.error
            except (InvalidReplicaAssignment, NoReassignmentInProgress, UnknownTopicOrPartition):
                scene.oracles.sometimes["reassignment refused"] += 1
                return
            except StrandlineError:
                await asyncio.sleep(RETRY_S)
            else:
                return
