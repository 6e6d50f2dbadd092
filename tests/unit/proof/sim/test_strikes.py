"""What strikes do to a machine, without a cluster."""

from __future__ import annotations

import os
import random
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_broker.storage.files.atomic_file import replace_file
from strandline_broker.storage.files.checkpoint_limits import SHARED
from strandline_broker.storage.files.file import read_whole
from strandline_proof.sim.disk.disk import CAPACITY, SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.kinds.disks import FILES
from strandline_proof.sim.strikes.damage import DamageStrikes
from strandline_proof.sim.strikes.disks import DiskStrikes
from strandline_proof.sim.strikes.processes import ProcessStrikes
from support.storage import Store


class FakeScene:
    """One node, and a list of what is to happen later."""

    def __init__(self) -> None:
        self.over = False
        self.struck = Counter[str]()
        self.ends: list[tuple[float, Any, tuple[Any, ...]]] = []
        self.dark: list[str] = []
        self.doubles: list[Any] = []
        self.disk = SimDisk(random.Random(0), lambda: 0.0)
        self.rng = random.Random(0)
        self.oracles = SimpleNamespace(
            sometimes=Counter[str](), old_store=False, damaged_identities=list[str]()
        )
        self.world = SimpleNamespace(timeline=SimpleNamespace(add=lambda *_: None))
        self.start: Any = None
        self.the_node = SimpleNamespace(
            name="broker-1", disk=self.disk, running=True, incarnation=1
        )

    def node(self, name: str) -> Any:
        return self.the_node

    def later(self, delay_s: float, act: Any, *arguments: Any) -> None:
        self.ends.append((delay_s, act, arguments))

    def end(self, delay_s: float) -> None:
        for found in [found for found in self.ends if found[0] == delay_s]:
            self.ends.remove(found)
            found[1](*found[2])

    def darken(self, nodes: list[Any], restart_s: float, survival: float) -> None:
        self.dark += [node.name for node in nodes]


def strikes(family: Any, scene: FakeScene) -> Any:
    return family(scene).strikes


def test_of_two_faults_that_overlap_each_lasts_as_long_as_it_should() -> None:
    scene = FakeScene()
    strike = strikes(DiskStrikes, scene)
    strike["read-error"](node="broker-1", for_s=3.0, rate=0.5)
    strike["read-error"](node="broker-1", for_s=1.0, rate=0.25)
    assert scene.disk.faults.read_error == 0.25
    scene.end(1.0)
    assert scene.disk.faults.read_error == 0.5
    strike["read-error"](node="broker-1", for_s=9.0, rate=0.75)
    scene.end(3.0)
    assert scene.disk.faults.read_error == 0.75
    scene.end(9.0)
    assert scene.disk.faults.read_error == 0.0
    strike["disk-full"](node="broker-1", for_s=1.0, room=10)
    strike["disk-full"](node="broker-1", for_s=2.0, room=20)
    scene.end(1.0)
    assert scene.disk.capacity == 20
    scene.end(2.0)
    assert scene.disk.capacity == CAPACITY


def test_what_healing_has_ended_does_not_begin_again() -> None:
    scene = FakeScene()
    strike = strikes(DiskStrikes, scene)["disk-full"]
    strike(node="broker-1", for_s=3.0, room=10)
    strike(node="broker-1", for_s=1.0, room=20)
    scene.disk.capacity = CAPACITY
    scene.end(1.0)
    assert scene.disk.capacity == CAPACITY


def test_two_crashes_may_wait_for_their_moments_on_one_disk() -> None:
    scene = FakeScene()
    kills: list[int] = []
    scene.the_node.kill = lambda: kills.append(scene.disk.operations)
    strike = strikes(ProcessStrikes, scene)["crash-at"]
    for point in ("state", "new-directory"):
        strike(node="broker-1", point=point, count=1, power=False, restart_s=0.3)
    fs = SimFs(scene.disk)
    fs.makedirs("/data/t-0")
    assert (kills, len(scene.disk.crashes)) == ([1], 1)
    fs.fdatasync(fs.open("/data/strandline-state", os.O_RDWR | os.O_CREAT))
    assert (kills, scene.disk.crashes) == ([1, 3], [])


def test_every_file_that_a_start_reads_can_be_struck() -> None:
    """Each by its own word, and no other file by it."""
    data = ["meta.properties", "meta.properties.seal", "strandline-state", ".kafka_cleanshutdown"]
    data += [f"{c}{end}" for c in sorted(SHARED) for end in ("", ".seal")]
    log = ["leader-epoch-checkpoint", "leader-epoch-checkpoint.seal", "damaged-ranges"]
    log += ["checkpoint-limit-0", "partition.metadata", "partition.metadata.seal"]
    log += [f"{0:020d}.{ending}" for ending in ("log", "index", "timeindex", "snapshot")]
    struck = {
        name: [file for file, pattern in FILES.items() if fnmatchcase(name, pattern)]
        for name in (*data, *log)
    }
    assert all(len(files) == 1 for files in struck.values()), struck
    assert {file for files in struck.values() for file in files} == set(FILES)


def test_a_file_is_struck_once_its_process_has_ended_in_order() -> None:
    scene = FakeScene()
    scene.the_node.stop = lambda: None
    fs = SimFs(scene.disk)
    fs.makedirs("/data")
    replace_file(fs, "/data/.kafka_cleanshutdown", b"{}")
    strike = strikes(DamageStrikes, scene)["file-flip"]
    assert not strike(node="broker-1", file="marker", bits=1, stops=False, down_s=0.3)
    scene.end(0.05)
    assert not scene.struck
    scene.the_node.running = False
    scene.end(0.05)
    assert scene.struck["file-flip"] == 1
    assert read_whole(fs, "/data/.kafka_cleanshutdown") != b"{}"


def test_of_a_file_and_its_seal_one_outage_leaves_the_other() -> None:
    """Whoever is asked to end may lose its power first, and be struck by both that wait."""
    scene = FakeScene()
    scene.the_node.stop = lambda: None
    fs = SimFs(scene.disk)
    fs.makedirs("/data/t-0")
    identity = "/data/t-0/partition.metadata"
    for path in (identity, f"{identity}.seal"):
        replace_file(fs, path, b"written")
    strike = strikes(DamageStrikes, scene)["file-flip"]
    strike(node="broker-1", file="identity-seal", bits=1, stops=True, down_s=0.3)
    assert strike(node="broker-1", file="identity", bits=1, stops=False, down_s=0.2)
    scene.the_node.running = False
    scene.end(0.05)
    assert read_whole(fs, identity) != b"written"
    assert read_whole(fs, f"{identity}.seal") == b"written"
    scene.the_node.running, scene.the_node.incarnation = True, 2
    assert strike(node="broker-1", file="identity-seal", bits=1, stops=False, down_s=0.2)
    assert read_whole(fs, f"{identity}.seal") != b"written"


@pytest.mark.parametrize(("stops", "torn"), [(True, False), (True, True), (False, True)])
def test_recovery_points_are_not_struck_above_what_power_took(*, stops: bool, torn: bool) -> None:
    """Whoever is asked to end may lose its power first, and nobody can tell its torn tail from
    damage then (I-7).
    """
    scene = FakeScene()
    scene.the_node.stop = lambda: None
    fs = SimFs(scene.disk)
    store = Store(Path("/data"), fs=fs)
    store.append(b"durable")
    store.flush()
    store.checkpoint()
    store.append(b"torn" if torn else b"whole")
    if torn:
        log = fs.open(store.log.segments[-1].path(), os.O_RDWR)
        fs.ftruncate(log, fs.fstat(log).size - 1)
    points = "/data/recovery-point-offset-checkpoint"
    before = read_whole(fs, points)
    strikes(DamageStrikes, scene)["file-flip"](
        node="broker-1", file="recovery-point", bits=1, stops=stops, down_s=0.3
    )
    scene.the_node.running = False
    scene.end(0.05)
    assert (read_whole(fs, points) != before, scene.struck["file-flip"]) == (not torn, not torn)


@pytest.mark.parametrize("restart_s", [0.0, 0.2])
def test_a_bit_that_has_nothing_to_flip_in_cuts_no_power(restart_s: float) -> None:
    scene = FakeScene()
    strike = strikes(DamageStrikes, scene)["bit-flip"]
    assert not strike(node="broker-1", file="seal", bits=1, restart_s=restart_s)
    assert not scene.dark
