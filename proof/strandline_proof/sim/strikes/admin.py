"""Strikes by an administrator's commands, under load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline import Admin
from strandline.errors import StrandlineError, UnknownTopicOrPartition
from strandline.types import ConfigChange
from strandline_proof.sim.topology.topology import COMPACTED, TOPIC
from strandline_proof.sim.workload.churn import CHURN, Churn
from strandline_proof.sim.workload.compacted_topic import Compaction, Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.strikes.scene import Scene
    from strandline_runtime.runtime import Runtime

ADMIN: Final = "admin"
REQUEST_MS: Final = 1000
RETRY_S: Final = 0.2
DELETER: Final = "deleter"
DELETE_MS: Final = 3000
TO_HIGH_WATERMARK: Final = -1
NO_LIMIT: Final = (1 << 63) - 1
RETAINER: Final = "retainer"
RETENTION_BYTES: Final = "retention.bytes"
UNLIMITED: Final = -1
UNCLEAN: Final = "gambler"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
MIN_INSYNC: Final = "min.insync.replicas"


class AdminStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {
            "topic-recreate": self._recreate,
            "min-insync": self._min_insync,
            "delete-records": self._delete_records,
            "retention": self._retain,
            "compaction": self._compact,
            "unclean": self._elect_uncleanly,
        }

    def _recreate(self, pause_s: float, partitions: int) -> None:
        self._churn().orders.append((pause_s, partitions))

    def _churn(self) -> Churn:
        """The other topic and its clients; the first command creates them."""
        scene = self._scene
        if scene.churn is None:
            scene.churn = Churn(scene.world, scene.oracles)
            scene.world.add_node(CHURN, scene.churn.main).start()
        return scene.churn

    def _compact(self, keys: int, delete_retention_ms: int, lag_ms: int, off_s: float) -> None:
        """Creates the compacted topic and its clients at the first command; later commands alter
        it.
        """
        scene = self._scene
        if scene.compaction is None:
            scene.compaction = Compaction(scene.world, scene.oracles)
            scene.world.add_node(COMPACTED, scene.compaction.main).start()
        scene.compaction.orders.append(Order(keys, delete_retention_ms, lag_ms, off_s))

    def _min_insync(self, value: int, for_s: float) -> bool:
        """Sets another min.insync.replicas for a while."""
        scene = self._scene
        if scene.is_busy(ADMIN):
            return False
        usual = scene.world.topology.min_insync_replicas

        async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            await self._alter(runtime, MIN_INSYNC, value)
            await asyncio.sleep(0 if scene.over else for_s)
            await self._alter(runtime, MIN_INSYNC, usual)

        scene.run_client(ADMIN, main)
        return True

    def _elect_uncleanly(self, for_s: float) -> bool:
        """Allows unclean elections for a while: any live replica may lead rather than
        none (I-48).
        """
        scene = self._scene
        if scene.is_busy(UNCLEAN):
            return False

        async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            await self._alter(runtime, UNCLEAN_ELECTION, "true")
            await asyncio.sleep(0 if scene.over else for_s)
            await self._alter(runtime, UNCLEAN_ELECTION, "false")

        scene.run_client(UNCLEAN, main)
        return True

    def _delete_records(self, partition: int, back: int) -> bool:
        """Deletes all but the last `back` of the committed records, or all with 0."""
        scene = self._scene
        ghost = scene.oracles.ghost_of(partition)
        if ghost is None or ghost.end <= back or scene.is_busy(DELETER):
            return False
        before = TO_HIGH_WATERMARK if back == 0 else ghost.end - back
        asked_before = ghost.asked
        ghost.asked = NO_LIMIT if back == 0 else max(ghost.asked, before)

        async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            try:
                async with Admin(
                    scene.world.topology.bootstrap,
                    request_timeout_ms=DELETE_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as admin:
                    await admin.delete_records({(TOPIC, partition): before})
            except StrandlineError:
                scene.oracles.sometimes["records not known to be deleted"] += 1
                return
            if back == 0:  # an earlier try was carried out, and named no more than is committed now
                ghost.asked = max(asked_before, ghost.end)

        scene.run_client(DELETER, main)
        return True

    def _retain(self, bytes: int, for_s: float) -> bool:
        """Retains only so many bytes of each partition, for a while."""
        scene = self._scene
        if scene.is_busy(RETAINER):
            return False
        scene.oracles.replicas.log_starts.on_retention(bytes)

        async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            await self._alter(runtime, RETENTION_BYTES, bytes)
            await asyncio.sleep(0 if scene.over else for_s)
            await self._alter(runtime, RETENTION_BYTES, UNLIMITED)

        scene.run_client(RETAINER, main)
        return True

    async def _alter(self, runtime: Runtime, name: str, value: int | str) -> None:
        """Alters a configuration, however long that takes: a value set for a while is put back."""
        while True:
            try:
                async with Admin(
                    self._scene.world.topology.bootstrap,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as admin:
                    change = ConfigChange(name, str(value))
                    await admin.incremental_alter_configs({("topic", TOPIC): [change]})
            except UnknownTopicOrPartition:
                return
            except StrandlineError:
                await asyncio.sleep(RETRY_S)
            else:
                self._scene.oracles.sometimes["configuration altered"] += 1
                return
