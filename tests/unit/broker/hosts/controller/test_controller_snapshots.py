"""Snapshots are taken while decisions go on, and given up without harm."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import ConfigRecord
from strandline_broker.core.controller.log.startup import decide_start
from strandline_broker.hosts.controller import snapshots
from strandline_broker.hosts.controller.pipeline import Pipeline
from strandline_broker.hosts.controller.settings import SnapshotLimits
from strandline_broker.hosts.controller.snapshots import Snapshots
from strandline_runtime.real import real_runtime
from support.controller_store import StoreRun, same
from support.disk import Hurried

LIMIT_S = 10.0
TAKEN, GIVEN_UP = "snapshot taken", "a snapshot of the controller's state was given up"


class FullDisk(Hurried):
    """No room for a new snapshot while `full`."""

    full = False

    def replace(self, src: str, dst: str) -> None:  # type: ignore[override]
        if self.full and dst.endswith(".checkpoint"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), dst)
        super().replace(src, dst)


class Lines:
    """What was logged, for a test to wait for."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    def info(self, event: str, **fields: Any) -> None:
        self.lines.put_nowait((event, fields))

    warning = info

    async def heard(self, event: str) -> dict[str, Any]:
        while True:
            found, fields = await self.lines.get()
            if found == event:
                return fields


class Bench:
    def __init__(self, root: Path, limits: SnapshotLimits) -> None:
        self.disk = FullDisk()
        self.lines = Lines()
        self.store = StoreRun(self.disk, str(root))
        state, log = self.store.state, self.store.log
        runtime: Any = replace(real_runtime("test"), fs=self.disk, log=self.lines)  # type: ignore[arg-type]
        self.pipeline = Pipeline(runtime, state, log, lambda *_: self.snapshots.on_commit())
        self.snapshots: Snapshots = Snapshots(runtime, state, log, self.pipeline, limits)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.pipeline.commit(decide_start(self.store.state, min_insync_replicas=1).records)
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
            work = [tasks.create_task(self.pipeline.run()), tasks.create_task(self.snapshots.run())]
            yield
            for task in work:
                task.cancel()
        self.snapshots.close()
        self.pipeline.close()
        self.store.close()

    async def decide(self, count: int) -> None:
        for number in range(count):
            decision = Decision((ConfigRecord(key="k", value=str(number)),), answer=None)
            await self.pipeline.submit(partial(_the, decision))


def _the(decision: Decision[None]) -> Decision[None]:
    return decision


async def test_after_so_many_bytes_a_snapshot_is_taken_and_the_log_loses_what_it_covers(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, SnapshotLimits(max_bytes=2000, interval_ms=0))
    log = bench.store.log
    async with bench.running():
        for _ in range(3):
            await bench.decide(30)
            await bench.lines.heard(TAKEN)
    assert len(log.snapshots) == 2
    assert 0 < log.start_offset == log.snapshots[0].end_offset
    again = StoreRun(Hurried(), str(tmp_path))
    assert again.log.snapshot is not None
    assert same(again.state, bench.store.state)


async def test_after_so_long_a_snapshot_is_taken_of_what_is_new(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SnapshotLimits(max_bytes=1 << 30, interval_ms=5))
    log = bench.store.log
    async with bench.running():
        first = await bench.lines.heard(TAKEN)
        await bench.decide(1)
        second = await bench.lines.heard(TAKEN)
    assert (first["end_offset"], second["end_offset"]) == (log.end_offset - 1, log.end_offset)


async def test_a_failed_snapshot_is_tried_again_and_decisions_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "RETRY_S", 0.02)
    bench = Bench(tmp_path, SnapshotLimits(max_bytes=500, interval_ms=0))
    bench.disk.full = True
    async with bench.running():
        await bench.decide(20)
        why = await bench.lines.heard(GIVEN_UP)
        assert "No space left" in why["reason"]
        await bench.lines.heard(GIVEN_UP)
        assert bench.store.log.snapshots == ()
        bench.disk.full = False
        await bench.decide(1)
        await bench.lines.heard(TAKEN)
    assert same(StoreRun(Hurried(), str(tmp_path)).state, bench.store.state)


async def test_a_start_with_a_long_log_takes_one_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SnapshotLimits(interval_ms=0))
    async with bench.running():
        await bench.decide(20)
    again = Bench(tmp_path, SnapshotLimits(max_bytes=500, interval_ms=0))
    async with again.running():
        await again.lines.heard(TAKEN)
