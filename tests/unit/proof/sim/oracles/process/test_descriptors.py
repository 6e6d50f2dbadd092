"""Which open descriptors nobody owns (I-182)."""

from __future__ import annotations

import os
from random import Random

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import Held, SimFs
from strandline_proof.sim.oracles.process.descriptors import leaked


def test_a_disk_knows_what_is_open_and_whether_it_is_still_there() -> None:
    fs = SimFs(SimDisk(Random(1), lambda: 0.0))
    flags = os.O_RDWR | os.O_CREAT
    kept, gone, closed = (fs.open(f"/{name}", flags) for name in ("a", "b", "c"))
    fs.unlink("/b")
    fs.close(closed)
    assert fs.held() == [Held("/a", is_there=True), Held("/b", is_there=False)]
    fs.replace("/a", "/d")
    assert fs.held()[0] == Held("/a", is_there=False)
    assert kept < gone


def test_a_segment_is_open_once_and_nothing_else_stays_open() -> None:
    log, index, lock = (f"/data/t-0/{name}" for name in ("0.log", "0.index", ".lock"))
    held = [Held(path, is_there=True) for path in (log, index, lock)]
    assert leaked(held) == {}
    assert leaked([*held, held[0]]) == {log: "is open 2 times"}


def test_a_file_that_is_gone_or_read_at_once_is_nobodys() -> None:
    held = [Held("/data/t-0/0.log", is_there=False), Held("/data/meta", is_there=True)]
    assert leaked(held) == {"/data/t-0/0.log": "is gone", "/data/meta": "is not kept open"}
