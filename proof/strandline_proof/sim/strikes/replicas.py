"""Strikes at one replica of a broker whose other replicas go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline_proof.sim.topology.topology import TOPIC, broker_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.strikes.scene import Scene


class ReplicaStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {"held-replica": self._hold}

    def _hold(self, node: str, partition: int, for_s: float) -> bool:
        """Holds its gate for long, as a truncation or a cleaning does."""
        host = self._scene.node(node)
        replicas = getattr(host.process, "replicas", None)
        if not host.running or host.owner is None or replicas is None:
            return False
        for replica in replicas.partitions.values():
            if (replica.log.topic, replica.log.partition) == (TOPIC, partition):
                held = self._held(replica, for_s)
                host.owner.run(self._scene.world.loop.create_task, held, name=f"{node}: held")
                self._scene.oracles.fencings.held[broker_id(node)] = replica.name
                return True
        return False

    async def _held(self, replica: Partition, for_s: float) -> None:
        async with replica.gate:
            await asyncio.sleep(for_s)
