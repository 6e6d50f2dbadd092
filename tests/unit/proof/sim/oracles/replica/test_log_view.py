"""What a log holds that was begun again within a batch, where a log start lay there (I-75), or that
goes on in a new segment behind damage (I-7).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.oracles.replica.log_view import Entry, LogView
from support.storage import LARGE, Store, damaged

FIRST, SECOND = Entry(0, 11, 0, 6, None), Entry(11, 28, 0, 7, (0, 0))


def log(start: int, *entries: Entry) -> LogView:
    view = LogView(SimDisk(random.Random(0), lambda: 0.0), "/data/t-0")
    view.begin_at(start)
    view.entries = list(entries)
    view._places = [(start, number) for number, _ in enumerate(entries, start=1)]
    return view


def test_a_batch_over_its_start_is_held_if_it_is_there() -> None:
    assert log(10, FIRST, SECOND).holds(FIRST)
    assert not log(10).holds(FIRST), "its last record went with the power"
    assert log(11).holds(FIRST), "removed as a whole"


def test_a_cut_within_a_batch_takes_it_and_begins_the_log_anew() -> None:
    view = log(0, FIRST, SECOND)
    assert view.cut(10) == [FIRST, SECOND]
    assert (view.start, view.end) == (10, 10)
    assert not view.holds(FIRST)


def test_a_cut_between_batches_takes_what_is_behind_it() -> None:
    view = log(0, FIRST, SECOND)
    assert view.cut(11) == [SECOND]


@pytest.mark.parametrize("is_torn", [True, False])
def test_a_damaged_log_goes_on_where_its_next_segment_begins(*, is_torn: bool) -> None:
    """What was never promised, and is no batch to a start, stays behind the damage."""
    disk = SimDisk(random.Random(0), lambda: 0.0)
    store = Store(Path("/data"), LARGE, SimFs(disk))
    store.append(b"a")
    store.append(b"b")
    store.flush()
    store.checkpoint()
    store.append(b"c")
    view = LogView(disk, f"{store.log_dir}")
    before = view.read_to(3, "before")
    store.kill()
    file = disk.find(store.log.segments[0].path())
    assert isinstance(file, Inode)
    file.sync()
    (_, damage, _), (_, tail, end) = view.place(1), view.place(2)
    if is_torn:
        file.truncate(end - 5, 0.0)
        file.sync()
    else:
        file.flip(tail + 30, 1)
    file.flip(damage + 30, 1)
    store.start()
    assert damaged(store.log) == [(1, 2)]
    assert [s.base_offset for s in store.log.segments] == [0, 2]
    assert view.cut(2) == before[2:]
    for value in (b"d", b"e"):
        store.append(value, epoch=1)
    appended = [(2, 1), (3, 1)]
    assert [entry.identity for entry in view.read_to(4, "it goes on")] == appended
    anew = LogView(disk, f"{store.log_dir}")
    assert anew.read_to(4, "read anew")[:2] == before[:2]
    assert [entry.identity for entry in anew.entries[2:]] == appended
    anew.read_valid()
    assert anew.end == 4


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_segment_that_was_cleaned_is_durable_with_what_is_left_of_it(*, is_synced: bool) -> None:
    view = log(0, FIRST, SECOND)
    view._places = [(0, 8), (11, 8)]
    fs = SimFs(view._disk)
    fs.makedirs(view.path)
    for base, size in ((0, 3), (11, 8)):
        fd = fs.open(f"{view.path}/{base:020d}.log", os.O_RDWR | os.O_CREAT)
        fs.pwrite(fd, bytes(size), 0)
        if is_synced or base > 0:
            fs.fsync(fd)
    fs.fsync_dir(view.path)
    assert view.is_durable(SECOND) is is_synced
