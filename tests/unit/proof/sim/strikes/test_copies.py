"""A bit flips where another replica has the same on its platter, and where that replica stays."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.oracles.replica.log_view import LogView
from strandline_proof.sim.strikes.copies import (
    another_is_sound,
    flushed,
    flushed_elsewhere,
    is_damaged_alone,
)
from strandline_proof.sim.topology.topology import DATA
from support.storage import LARGE, Store

KEY = b"t" * 16, 0


class Replica:
    """The log `t-0` of three batches, of which so many lie below the recovery point."""

    def __init__(self, number: int, below: int) -> None:
        disk = SimDisk(random.Random(0), lambda: 0.0)
        self.node: Any = SimpleNamespace(name=f"broker-{number}", disk=disk, running=True)
        store = Store(Path(DATA), LARGE, SimFs(disk))
        for at, value in enumerate((b"a", b"b", b"c")):
            if at == below:
                store.flush()
                store.checkpoint()
            store.append(value)
        self.view = LogView(disk, str(store.log_dir))
        self.view.read_to(3, "appended")


class Scene:
    def __init__(self, isr: tuple[int, ...] = (1, 2), replicas: tuple[int, ...] = (1, 2)) -> None:
        self.all = {number: Replica(number, below) for number, below in ((1, 2), (2, 1), (3, 2))}
        self.decided = SimpleNamespace(isr=isr, replicas=replicas, target=replicas, original=())
        self.ghost = SimpleNamespace(damaged=dict[str, object](), permitted=None)
        self.moves: list[tuple[int, list[int]]] = []
        self.doubles: dict[Any, Any] = {}
        self.world = SimpleNamespace(members={n: r.node for n, r in self.all.items()})
        views = {replica.node.name: replica.view for replica in self.all.values()}
        self.oracles = SimpleNamespace(
            control=SimpleNamespace(partitions={KEY: self.decided}),
            replicas=SimpleNamespace(
                ghost=lambda key: self.ghost, find_view=lambda name, key: views.get(name)
            ),
            ghost_of=lambda index: self.ghost,
        )

    def is_one_sound(self) -> bool:
        there: Any = self
        return another_is_sound(there, self.all[1].node, KEY)

    def elsewhere(self) -> list[int]:
        """Base offsets of what others than broker 1 have flushed."""
        there: Any = self
        return sorted(base for base, _ in flushed_elsewhere(there, self.all[1].node, KEY))


@pytest.mark.parametrize(
    ("isr", "replicas", "is_one"),
    [
        ((1, 2), (1, 2), True),
        ((1, 2, 3), (1, 2, 3), True),
        ((1,), (1, 2), False),
        ((1,), (1,), False),
    ],
)
def test_a_log_is_struck_where_another_replica_is_in_sync(
    isr: tuple[int, ...], replicas: tuple[int, ...], *, is_one: bool
) -> None:
    """Of one that is alone nobody could have it back (I-88)."""
    assert Scene(isr, replicas).is_one_sound() == is_one


def test_a_batch_that_the_others_may_lose_with_their_power_is_not_struck() -> None:
    scene = Scene()
    assert flushed(scene.all[1].node, scene.all[1].view) == [0, 1]
    assert scene.elsewhere() == [0]
    assert Scene((1, 2, 3), (1, 2, 3)).elsewhere() == [0, 1]


def test_a_replica_that_a_move_takes_away_has_nothing() -> None:
    scene = Scene((1, 2, 3), (1, 2, 3))
    scene.decided.target = (1, 2)
    assert scene.elsewhere() == [0]
    scene.decided.original = (1,)  # a cancel would lead there
    assert scene.elsewhere() == []


def test_nor_has_one_that_somebody_asks_to_take_away() -> None:
    scene = Scene()
    scene.moves.append((1, [1]))
    assert scene.elsewhere() == [0]
    scene.moves.append((0, [1]))
    assert scene.elsewhere() == []


@pytest.mark.parametrize(("target", "is_so"), [([1], True), ([1, 2], False), ([2], False)])
def test_a_partition_is_not_moved_to_what_a_disk_has_changed_alone(
    target: list[int], *, is_so: bool
) -> None:
    scene: Any = Scene()
    assert not is_damaged_alone(scene, 0, target)
    scene.ghost.damaged["broker-1"] = ()
    assert is_damaged_alone(scene, 0, target) == is_so
