"""A topic of many partitions with little traffic, beside the main one (I-94): a broker's work for
each of its partitions meets its work for one.

Its writer and its reader record what they do, and are judged as those of the main topic are.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_chaos.checkers import check
from strandline_chaos.excused import without
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.oracles.watch import CheckedHistory
from strandline_proof.sim.topology.topology import CROWD
from strandline_proof.sim.workload.clients import until_created, workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_chaos.excused import Excuse
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.watch import Oracles
    from strandline_runtime.runtime import Runtime

SENDS_PER_S: Final = 12
FINAL_READ_S: Final = 20.0


class Crowd:
    """The topic and its clients, on an undisturbed node."""

    def __init__(self, world: World, oracles: Oracles) -> None:
        self._world = world
        self._oracles = oracles
        self._history = CheckedHistory(world, oracles, CROWD)
        self._finish = asyncio.Event()
        world.add_node(CROWD, self.main)

    def finish(self) -> None:
        """Reads all of it, and judges."""
        self._finish.set()

    async def main(self, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        world, partitions = self._world, self._world.topology.crowd
        await until_created(world, runtime, self._finish, CROWD, partitions)
        of_crowd: Any = partial(
            workload,
            world,
            runtime,
            topic=CROWD,
            partitions=partitions,
            history=self._history,
            sends_per_s=SENDS_PER_S,
        )
        await of_crowd(writers=1, readers=1).run(self._finish.wait())
        excused = self._oracles.excused(CROWD)
        keys = [p for p in range(partitions) if not self._oracles.given_up(p, CROWD)]
        if keys:
            await of_crowd(writers=0, readers=0, keys=keys).read_back(FINAL_READ_S)
        self._check(excused)

    def _check(self, excused: Mapping[int, Excuse]) -> None:
        verdict = check(without(self._history.events, excused))
        for name, anomaly in verdict.anomalies.items():
            if anomaly.count:
                what = f"{CROWD}: {anomaly.count} {name}: {anomaly.examples[0]}"
                self._world.loop.fail(Violation("history", what))
        self._oracles.sometimes["acknowledged in a topic of many partitions"] += (
            verdict.acknowledged
        )
