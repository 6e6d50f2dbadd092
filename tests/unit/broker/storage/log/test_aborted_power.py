"""The index of aborted transactions after a loss of power at any call of the disk (I-153)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.aborted_scan import indexed, on_disk, scan
from support.compaction import COMPACTED, clean
from support.disk import DyingDisk, PowerLost
from support.examples import every
from support.producer_log import ProducerLog, end_marker, transactional_batch
from support.storage import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A, B = 2, 3
CONFIG = replace(COMPACTED, segment_bytes=400, index_interval_bytes=1)


def begin(p: ProducerLog, producer_id: int, *, sequence: int = 0) -> None:
    p.append(transactional_batch(producer_id, b"v" * 60, base_sequence=sequence))


def abort(p: ProducerLog) -> None:
    p.append(end_marker(A, commit=False))
    begin(p, B, sequence=1)
    p.append(end_marker(B, commit=False))
    p.store.flush()
    p.store.checkpoint(p.log.log_end_offset)
    begin(p, A, sequence=1)
    p.append(end_marker(A, commit=False))


def cut(p: ProducerLog) -> None:
    p.append(end_marker(A, commit=False))
    p.store.flush()
    p.truncate(4)
    p.append(end_marker(A, commit=True))
    p.store.flush()


def compact(p: ProducerLog) -> None:
    p.append(end_marker(A, commit=False))
    p.log.roll()
    begin(p, B, sequence=1)
    p.store.flush()
    p.store.checkpoint(p.log.log_end_offset)
    clean(p.store, bound=p.log.log_end_offset - 1, live_producers={B: 1, A: 4})


@pytest.mark.parametrize("act", [abort, cut, compact])
@pytest.mark.parametrize("keeps_all", [False, True])
def test_power_lost_at_any_call_leaves_the_index_that_the_log_tells(
    act: Callable[[ProducerLog], None], keeps_all: bool, tmp_path: Path
) -> None:
    for calls in range(0, 1000, every(3)):
        root = tmp_path / str(calls)
        root.mkdir()
        disk = DyingDisk(root)
        p = ProducerLog(Store(root, CONFIG, fs=disk))
        begin(p, A)
        begin(p, B)
        p.append(end_marker(B, commit=False))
        begin(p, A, sequence=1)
        p.store.flush()
        p.store.checkpoint(p.log.log_end_offset)
        disk.calls_left = calls
        try:
            act(p)
            done = True
        except PowerLost:
            done = False
        disk.calls_left = None
        disk.crash(*[lambda _, written: written] if keeps_all else ())
        p.store.start()
        p.load()
        ours, theirs = indexed(p.log), scan(p.log)
        if act is compact:  # the first batch of a transaction may be gone
            ours, theirs = ([(e[0], 0, e[2], 0) for e in each] for each in (ours, theirs))
        assert ours == theirs, (calls, p.store.reports)
        assert len(on_disk(p.log)) == 34 * len(ours), calls
        shutil.rmtree(root)
        if done:
            assert calls > 3
            return
    pytest.fail("it never came to an end")
