"""What a start must leave of a log, told from the bytes of its disk alone (I-7)."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.oracles.process.disks import kept_to, unread_from
from strandline_proof.sim.oracles.replica.log_view import Entry, LogView
from strandline_proof.sim.oracles.replica.replica import Replica
from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import DATA, Topology
from support.storage import LARGE, Store

KEY = b"t" * 16, 0
FLUSHED = 3


class Struck:
    """The log `t-0` of four batches, the last of them above the recovery point."""

    def __init__(self) -> None:
        self.disk = SimDisk(random.Random(0), lambda: 0.0)
        self.store = Store(Path(DATA), LARGE, SimFs(self.disk))
        for value in (b"a", b"b", b"c"):
            self.store.append(value)
        self.store.flush()
        self.store.checkpoint()
        self.view = LogView(self.disk, str(self.store.log_dir))
        self.view.read_to(FLUSHED, "flushed")

    def append(self) -> None:
        self.store.append(b"d")
        self.view.read_to(FLUSHED + 1, "appended")

    def lose_recovery_points(self) -> None:
        self.flip(f"{DATA}/recovery-point-offset-checkpoint", 0)

    def damage(self, number: int) -> Entry:
        segment, start, _ = self.view.place(number)
        self.flip(f"{self.view.path}/{segment:020d}.log", start + 30)
        return self.view.entries[number]

    def flip(self, path: str, position: int) -> None:
        found = self.disk.find(path)
        assert isinstance(found, Inode)
        found.sync()
        found.flip(position, 1)

    def kept_to(self, damage: Entry | None) -> int:
        return kept_to(self.disk, self.view, damage)


def test_what_lies_above_the_recovery_point_may_be_torn_off() -> None:
    struck = Struck()
    struck.append()
    assert struck.kept_to(None) == FLUSHED


def test_what_was_not_given_as_it_was_written_begins_with_the_segment_of_that() -> None:
    """An index says where to read in a log; what is beside them is no place in it."""
    disk = SimDisk(random.Random(0), lambda: 0.0)
    others = f"{DATA}/t-0/{3:020d}.snapshot", f"{DATA}/t-01/{0:020d}.log"
    disk.struck += [("misread", path) for path in others]
    disk.struck.append(("write error", f"{DATA}/t-0/{2:020d}.log"))
    assert unread_from(disk, f"{DATA}/t-0") is None
    disk.struck.append(("misread", f"{DATA}/t-0/{30:020d}.log"))
    disk.struck.append(("read error", f"{DATA}/t-0/{20:020d}.timeindex"))
    assert unread_from(disk, f"{DATA}/t-0") == 20


def test_what_the_power_has_taken_cannot_be_left() -> None:
    struck = Struck()
    struck.view.cut(2)
    assert struck.kept_to(None) == 2


def test_what_was_about_to_be_cut_is_no_more_promised() -> None:
    struck = Struck()
    struck.store.log.limits.add(1)
    assert struck.kept_to(None) == 1


@pytest.mark.parametrize("number", [0, 1, 2])
def test_damage_costs_nothing_that_was_durable(number: int) -> None:
    struck = Struck()
    assert struck.kept_to(struck.damage(number)) == FLUSHED


def test_nor_does_it_without_recovery_points_below_what_is_sound() -> None:
    struck = Struck()
    struck.append()
    struck.lose_recovery_points()
    assert struck.kept_to(struck.damage(2)) == FLUSHED
    assert struck.kept_to(None) == FLUSHED


@pytest.mark.parametrize("lost", ["recovery points", "limit"])
def test_the_last_batch_may_be_a_torn_one_to_whoever_knows_no_recovery_point(lost: str) -> None:
    struck = Struck()
    if lost == "limit":
        struck.store.log.limits.add(FLUSHED)
        struck.flip(f"{struck.view.path}/checkpoint-limit-0", 0)
    else:
        struck.lose_recovery_points()
    assert struck.kept_to(struck.damage(2)) == 2


@pytest.mark.parametrize("opened", [1, 2, 3, 4])
def test_a_start_that_takes_damage_for_a_torn_tail(opened: int) -> None:
    """It is where the disk was struck, and that excuses the batch alone."""
    struck = Struck()
    struck.append()
    struck.lose_recovery_points()
    anything: Any = SimpleNamespace()
    oracle = ReplicaOracle(anything, Topology(), anything, Counter())
    oracle.ghost(KEY).on_damaged("broker-1", struck.damage(1))
    node: Any = SimpleNamespace(name="broker-1", incarnation=2, disk=struck.disk)
    log = SimpleNamespace(path=struck.view.path, log_end_offset=4, log_start_offset=0)
    partition: Any = SimpleNamespace(name="t-0", key=KEY, log=log, healing=False)
    before = Replica(1, partition, struck.view)
    before.end, before.start = 4, 0
    opens: Any = SimpleNamespace(
        name="t-0", key=KEY, log=SimpleNamespace(**vars(log) | {"log_end_offset": opened})
    )
    if opened < FLUSHED:
        with pytest.raises(Violation, match=rf"I-7.*cut it to {opened}, durable .* below 3"):
            oracle._open(node, KEY, opens, before)
    else:
        oracle._open(node, KEY, opens, before)
