"""The balancer: from time to time it moves leaders back to their preferred replicas."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.partitions.balance import Balanced, decide_balance
from strandline_broker.hosts.controller.pipeline import NOT_NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.controller.brokers.applied_offsets import Applied
    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_broker.core.controller.partitions.balance import BalanceSettings, Quiet
    from strandline_broker.hosts.controller.pipeline import Pipeline
    from strandline_runtime.runtime import Runtime

PARTITIONS_PER_BATCH: Final = 100
PAUSE_S: Final = 1.0
"""Time between two batches, which the new leaders have without further elections."""


class Balancer:
    def __init__(
        self,
        runtime: Runtime,
        settings: BalanceSettings,
        state: ControllerState,
        applied: Applied,
        pipeline: Pipeline,
        quiet: Quiet,
        now_ms: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._state = state
        self._applied = applied
        self._pipeline = pipeline
        self._quiet = quiet
        self._now_ms = now_ms

    async def run(self) -> None:
        """Balance until cancelled, if the configuration enables it."""
        if not self._settings.enabled:
            return
        while True:
            await asyncio.sleep(self._settings.interval_s)
            pause_s = await self._once()
            while pause_s is not None:
                await asyncio.sleep(pause_s)
                pause_s = await self._once()

    async def _once(self) -> float | None:
        """One batch if the cluster is quiet; in how many seconds to go on, None: all is done."""
        missing_ms = self._quiet.missing_ms(self._now_ms())
        if missing_ms > 0:
            return missing_ms / 1000
        try:
            balanced = await self._pipeline.submit(self._decide)
        except NOT_NOW:
            return PAUSE_S
        if balanced.moved > 0:
            self._runtime.log.info("leaders balanced", moved=balanced.moved, left=balanced.left)
        return PAUSE_S if balanced.left > 0 else None

    def _decide(self) -> Decision[Balanced]:
        if self._quiet.missing_ms(self._now_ms()) > 0:
            return Decision((), answer=Balanced(0, left=1))  # not quiet when its turn came
        return decide_balance(
            self._state,
            self._applied.offsets,
            percentage=self._settings.percentage,
            limit=PARTITIONS_PER_BATCH,
        )
