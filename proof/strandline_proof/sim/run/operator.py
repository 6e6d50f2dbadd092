"""The operator's command to elect, where a partition waits for a disk that is gone (I-53).

Balanced recovery waits for every member of the last known ELR, on the disk that it was in sync
with. A wiped disk does not come back, and only a person can know that. Once everything else is
well, the operator tells the controller to elect one of the remaining replicas.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline import Admin, ElectionType
from strandline.errors import StrandlineError

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import PartitionRegistration
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle
    from strandline_proof.sim.strikes.scene import Scene
    from strandline_runtime.runtime import Runtime

OPERATOR: Final = "operator"
RETRY_S: Final = 0.5
LOOKS_S: Final = 1.0


def waits_for_a_lost_disk(control: ControlOracle, partition: PartitionRegistration) -> bool:
    """True if a replica that was in sync last is back on another disk than it had then."""
    if partition.leader >= 0 or partition.isr or partition.elr:
        return False
    return any(
        control.brokers[b].directory_id != partition.directory_of(b)
        for b in partition.last_known_elr
        if b in control.brokers
    )


class Operator:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._looks_since = self._looked = float("-inf")

    def elect(self, partition: PartitionRegistration) -> None:
        """Has a leader elected uncleanly, by a client of its own; once while that is under way.

        A person looks for a while first: brokers that have just restarted are not known to the
        controller yet, and they may hold more.
        """
        scene, now = self._scene, self._scene.world.loop.now
        if now - self._looked > LOOKS_S / 2:
            self._looks_since = now
        self._looked = now
        if scene.is_busy(OPERATOR) or now - self._looks_since < LOOKS_S:
            return
        scene.oracles.control.by_hand = True

        async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
            state = scene.oracles.control.state
            assert state is not None
            of = state.topics[partition.topic_id].name, partition.index
            async with Admin(
                scene.world.topology.bootstrap, connect_timeout_ms=60_000, runtime=runtime
            ) as admin:
                while not stop.is_set():
                    try:
                        (result,) = await admin.elect_leaders(ElectionType.UNCLEAN, [of])
                    except StrandlineError:
                        await asyncio.sleep(RETRY_S)
                        continue
                    if result.error is None:
                        scene.oracles.sometimes["elected by the operator's word"] += 1
                    return

        scene.run_client(OPERATOR, main)
