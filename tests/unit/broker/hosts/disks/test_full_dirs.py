"""When a directory without room counts again."""

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from strandline_broker.hosts.disks.full_dirs import (
    AGAIN_S,
    HOLD_S_MAX,
    HOLD_S_MIN,
    ROOM_BYTES,
    FullDirs,
)


class Machine:
    """A directory, its file system, and the time."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.free = 0
        self.fails = False
        self.told: list[dict[str, object]] = []
        self.changes = 0
        directories: Any = SimpleNamespace(full=set())
        self.directories = directories
        runtime: Any = SimpleNamespace(
            fs=SimpleNamespace(free_space=self._free_space),
            log=SimpleNamespace(warning=lambda what, **words: self.told.append(words)),
            clock=SimpleNamespace(monotonic=lambda: self.now_s),
            metrics=CollectorRegistry(),
        )
        log = SimpleNamespace(topic="orders", partition=3)
        self.dir: Any = SimpleNamespace(path="/d", directory=SimpleNamespace(logs=lambda: [log]))
        self.dirs = FullDirs(runtime, directories, self._count)

    def _count(self) -> None:
        self.changes += 1

    def _free_space(self, path: str) -> int:
        if self.fails:
            raise OSError(errno.EIO, path)
        return self.free

    def is_full_after(self, wait_s: float) -> bool:
        self.now_s += wait_s
        self.dirs.look(self.dir)
        return "/d" in self.directories.full


def test_the_first_refusal_is_told_with_disk_and_partitions_and_the_next_is_no_news() -> None:
    machine = Machine()
    machine.dirs.on_refused(machine.dir)
    machine.dirs.on_refused(machine.dir)
    (told,) = machine.told
    assert (told["path"], told["partitions"]) == ("/d", "orders:3")
    assert machine.directories.full == {"/d"}
    assert machine.changes == 1


def test_it_counts_again_with_room_to_spare_and_after_a_while() -> None:
    machine = Machine()
    machine.dirs.on_refused(machine.dir)
    machine.free = ROOM_BYTES
    assert machine.is_full_after(HOLD_S_MIN - 0.1)
    machine.free = ROOM_BYTES - 1
    assert machine.is_full_after(5)
    machine.fails = True
    assert machine.is_full_after(5), "nobody knows"
    machine.fails, machine.free = False, ROOM_BYTES
    assert not machine.is_full_after(0)


def test_one_that_fills_up_again_and_again_stays_out_for_longer_each_time() -> None:
    """As with a quota, of which the free space says nothing."""
    machine = Machine()
    machine.free = ROOM_BYTES
    held = []
    for _ in range(10):
        machine.dirs.on_refused(machine.dir)
        began_s = machine.now_s
        while machine.is_full_after(0.5):
            pass
        held.append(machine.now_s - began_s)
        machine.dirs.on_room(machine.dir)
    assert held[:3] == [HOLD_S_MIN, 2 * HOLD_S_MIN, 4 * HOLD_S_MIN]
    assert held[-1] == HOLD_S_MAX
    machine.now_s += AGAIN_S
    machine.dirs.on_refused(machine.dir)
    assert not machine.is_full_after(HOLD_S_MIN), "that was long ago"


@pytest.mark.parametrize("full", [False, True])
def test_a_look_changes_nothing_where_there_is_nothing_to_change(full: bool) -> None:
    machine = Machine()
    if full:
        machine.dirs.on_refused(machine.dir)
    assert machine.is_full_after(HOLD_S_MIN) == full
