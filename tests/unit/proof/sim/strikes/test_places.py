"""How a strike knows where in the code a process is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from strandline_proof.sim.kinds.places import NEAR, PLACES, STARTS
from strandline_proof.sim.strikes.places import Watch, as_told

POINTS = "/data/log-start-offset-checkpoint"


def watch(point: str, *, registered: bool = True) -> Watch:
    node: Any = SimpleNamespace(is_registered=registered)
    return Watch(node, PLACES[point])


def seen(point: str, *operations: tuple[str, str], registered: bool = True) -> list[bool]:
    watching = watch(point, registered=registered)
    return [watching.is_here(operation, path) for operation, path in operations]


def test_a_place_is_an_operation_on_a_file() -> None:
    assert seen(
        "log-starts-synced", ("fsync", f"{POINTS}.7.tmp"), ("replace", f"{POINTS}.seal")
    ) == [False, True]


def test_one_that_needs_another_behind_it_is_met_after_it_and_near_it_alone() -> None:
    renamed, synced = ("replace", POINTS), ("fsync_dir", "/data")
    assert seen("log-starts-renamed", synced, renamed, synced) == [False, False, True]
    others = [("pread", "/data/t-0/0.log")] * NEAR
    assert not any(seen("log-starts-renamed", renamed, *others, synced))


def test_a_cut_is_told_from_an_election_that_writes_the_same_file() -> None:
    epochs = ("fsync", "/data/t-0/leader-epoch-checkpoint.3.tmp")
    assert seen("cut-epochs", epochs, ("ftruncate", "/data/t-0/0.log"), epochs) == [
        False,
        False,
        True,
    ]


def test_a_start_ends_with_the_registration() -> None:
    flush = ("fsync", "/data/t-0/0.log")
    assert seen("start-flush", flush, registered=False) == [True]
    assert seen("start-flush", flush) == [False]
    assert all(place.starts for place in STARTS.values())


def test_a_temporary_name_says_nothing_of_what_ran_before() -> None:
    assert as_told(f"{POINTS}.17.tmp") == f"{POINTS}.tmp"
    assert as_told(POINTS) == POINTS
