"""What a crash left of a cleaning: `.cleaned` goes, a whole `.swap` finishes (I-73)."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.storage.log.interrupted_swap import finish_swaps
from strandline_runtime.real import RealFileSystem
from support.storage import SMALL, Store

NAMES = ("log", "index", "timeindex")


def name(base: int, suffix: str) -> str:
    return f"{base:020d}.{suffix}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three sealed segments of two batches each, at 0, 2 and 4, and the active one at 6."""
    store = Store(tmp_path / "data", replace(SMALL, segment_bytes=300, index_interval_bytes=0))
    for i in range(7):
        store.append(b"%d" % i * 60)
    assert [s.base_offset for s in store.log.segments] == [0, 2, 4, 6]
    store.flush()
    store.checkpoint()
    return store


def swap_of(store: Store, bases: list[int]) -> None:
    """As a cleaning leaves it: the batches of those segments in one, under the name `.swap`."""
    whole = b"".join((store.log_dir / name(base, "log")).read_bytes() for base in bases)
    (store.log_dir / name(bases[0], "log.swap")).write_bytes(whole)
    for suffix in ("index.swap", "timeindex.swap"):
        (store.log_dir / name(bases[0], suffix)).write_bytes(b"")


def files(store: Store) -> set[str]:
    return {path.name for path in store.log_dir.iterdir() if path.name[0] == "0"}


def settle(store: Store) -> list[str]:
    reports: list[str] = []
    finish_swaps(RealFileSystem(), str(store.log_dir), reports.append)
    return reports


def expected(*bases: int) -> set[str]:
    return {name(base, suffix) for base in bases for suffix in NAMES}


def test_a_directory_without_a_cleaning_is_left_alone(store: Store) -> None:
    before = files(store)
    assert settle(store) == []
    assert files(store) == before


def test_a_segment_in_the_making_goes(store: Store) -> None:
    before = files(store)
    for suffix in NAMES:
        (store.log_dir / name(0, f"{suffix}.cleaned")).write_bytes(b"half")
    settle(store)
    assert files(store) == before


def test_indexes_renamed_before_their_log_go(store: Store) -> None:
    before = files(store)
    (store.log_dir / name(0, "index.swap")).write_bytes(b"")
    (store.log_dir / name(0, "log.cleaned")).write_bytes(b"half")
    settle(store)
    assert files(store) == before


@pytest.mark.parametrize("gone", range(7))
def test_a_whole_swap_takes_the_place_of_the_segments_it_covers(store: Store, gone: int) -> None:
    values = store.values()
    swap_of(store, [0, 2])
    for old in [name(base, suffix) for base in (0, 2) for suffix in NAMES][:gone]:
        (store.log_dir / old).rename(store.log_dir / f"{old}.deleted")
    (report,) = settle(store)
    assert "a compaction of offsets 0 to 4 was finished" in report
    assert {f for f in files(store) if not f.endswith(".deleted")} == expected(0, 4, 6)
    store.restart()
    assert store.values() == values


def test_a_swap_whose_indexes_have_their_names_already_is_finished(store: Store) -> None:
    values = store.values()
    swap_of(store, [2, 4])
    for suffix in ("index", "timeindex"):
        (store.log_dir / name(2, f"{suffix}.swap")).replace(store.log_dir / name(2, suffix))
    store.restart()
    assert "00000000000000000004.log" not in files(store)
    assert store.values() == values


def test_a_swap_of_nothing_covers_the_segment_of_its_name(store: Store) -> None:
    (store.log_dir / name(0, "log.swap")).write_bytes(b"")
    settle(store)
    assert (store.log_dir / name(0, "log")).read_bytes() == b""
    assert name(2, "log") in files(store)


def test_a_damaged_swap_goes_while_what_it_should_replace_is_there(store: Store) -> None:
    before, values = files(store), store.values()
    swap_of(store, [0, 2])
    path = store.log_dir / name(0, "log.swap")
    path.write_bytes(path.read_bytes()[:-1])
    (report,) = settle(store)
    assert "cut off" in report
    assert files(store) == before
    store.restart()
    assert store.values() == values


def test_a_damaged_swap_is_kept_to_be_refused_when_nothing_else_is_there(store: Store) -> None:
    swap_of(store, [0, 2])
    path = store.log_dir / name(0, "log.swap")
    damaged = path.read_bytes()[:-1]
    path.write_bytes(damaged)
    (store.log_dir / name(0, "log")).unlink()
    settle(store)
    assert (store.log_dir / name(0, "log")).read_bytes() == damaged


def test_settling_twice_changes_nothing_more(store: Store, tmp_path: Path) -> None:
    swap_of(store, [0, 2])
    settle(store)
    shutil.copytree(store.log_dir, tmp_path / "once")
    assert settle(store) == []
    assert {p.name for p in (tmp_path / "once").iterdir()} == {
        p.name for p in store.log_dir.iterdir()
    }
