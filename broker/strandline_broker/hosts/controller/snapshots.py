"""Snapshots of the controller's state, taken automatically while decisions continue.

The state is captured between two decisions, on the event loop. That is quick because all of it is
immutable or small. It is encoded and written in a separate thread. Only two steps take a turn in
the log's thread: the start of a new segment before, and the removal of old ones after.

A snapshot that cannot be written is tried again later: the log holds all decisions, so only space
is lost (I-8). A log that cannot be written ends the process (P-29).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.log import snapshot
from strandline_broker.core.controller.log.decision import Decision
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_broker.hosts.controller.metadata_store import MetadataStore
    from strandline_broker.hosts.controller.pipeline import Pipeline
    from strandline_broker.hosts.controller.settings import SnapshotLimits
    from strandline_runtime.runtime import Runtime

RETRY_S: Final = 30.0
"""Time until the next try after a failure: a full disk may have room again."""


class Snapshots:
    """Snapshots of one controller, which runs `run` as a task and calls `on_commit` for
    each batch.
    """

    def __init__(
        self,
        runtime: Runtime,
        state: ControllerState,
        store: MetadataStore,
        pipeline: Pipeline,
        limits: SnapshotLimits,
    ) -> None:
        self._runtime = runtime
        self._state = state
        self._store = store
        self._pipeline = pipeline
        self._limits = limits
        self._executor = runtime.serial_executor("metadata-snapshot")
        self._covered = 0 if store.snapshot is None else store.snapshot.end_offset
        self._taken_s = runtime.clock.monotonic()
        self._wake = asyncio.Event()

    def on_commit(self) -> None:
        if self._store.bytes_since_snapshot >= self._limits.max_bytes:
            self._wake.set()

    async def run(self) -> None:
        """Take snapshots until cancelled."""
        self.on_commit()
        while True:
            await self._until_due()
            try:
                await self._take()
            except (OSError, WireError) as error:
                self._runtime.log.warning(
                    "a snapshot of the controller's state was given up", reason=str(error)
                )
                await asyncio.sleep(RETRY_S)

    async def _until_due(self) -> None:
        interval_s = self._limits.interval_ms / 1000
        while True:
            age_s = self._runtime.clock.monotonic() - self._taken_s
            try:
                async with asyncio.timeout(max(interval_s - age_s, 0.001) if interval_s else None):
                    await self._wake.wait()
                return
            except TimeoutError:
                if self._state.next_offset > self._covered:
                    return
                self._taken_s = self._runtime.clock.monotonic()

    async def _take(self) -> None:
        started_s = self._runtime.clock.monotonic()
        taken, sealed = await self._pipeline.submit(self._look)
        await sealed
        covers = {"end_offset": taken.end_offset, "controller_epoch": taken.controller_epoch}
        loop = asyncio.get_running_loop()
        size = await loop.run_in_executor(
            self._executor,
            partial(
                self._store.write_snapshot,
                taken.values(),
                now_ms=int(self._runtime.clock.time() * 1000),
                **covers,
            ),
        )
        self._covered = taken.end_offset
        self._taken_s = self._runtime.clock.monotonic()
        gone = await loop.run_in_executor(
            self._pipeline.executor, partial(self._store.forget_covered, **covers)
        )
        self._wake.clear()
        self.on_commit()
        self._runtime.log.info(
            "snapshot taken",
            end_offset=taken.end_offset,
            bytes=size,
            segments_deleted=gone,
            ms=round((self._runtime.clock.monotonic() - started_s) * 1000),
        )

    def _look(self) -> Decision[tuple[snapshot.Snapshot, asyncio.Future[None]]]:
        """Between two decisions: no write is under way, so the new segment begins at the snapshot's
        end.
        """
        sealed = asyncio.get_running_loop().run_in_executor(
            self._pipeline.executor, self._store.seal
        )
        return Decision((), answer=(snapshot.take(self._state), sealed))

    def close(self) -> None:
        """Wait for the write under way, if any."""
        self._executor.shutdown(wait=True)
