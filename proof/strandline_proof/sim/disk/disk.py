"""A disk in memory that survives its processes and forgets everything that was never made durable.

A killed process leaves the page cache. A loss of power takes back each dirty page by itself. It
also takes back directory operations from the end of the metadata journal; `fsync_dir` makes the
journal durable up to the last operation on that directory. `SimFs` (`fs.py`) is the disk as one
process sees it.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.disk.parts import (
    HANG_S,
    Change,
    Directory,
    DiskFaults,
    can_be_misread,
    os_error,
    parts,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from strandline_proof.sim.disk.fs import SimFs
    from strandline_proof.sim.disk.inode import Inode

CAPACITY: Final = 1 << 30
REFUSALS: Final = ("read error", "write error", "fsync error")
UNREAD: Final = ("misread", "read error")  # bytes stay as written, and the file is gone from view


class SimDisk:
    """The disk. Each of `crashes` is asked before each operation, by its number, name and `path`,
    until the crash removes itself; the process that called the operation is then dead.
    """

    def __init__(self, rng: random.Random, wall: Callable[[], float]) -> None:
        self.faults = DiskFaults()
        self.capacity = CAPACITY
        self.operations = 0
        self.crashes: list[Callable[[int, str], None]] = []
        self.delays: list[Callable[[str, str], float]] = []
        """Functions asked before each operation, by its name and path, for the seconds that it
        stands still first; 0: none.
        """
        self.stand_still: Callable[[float], bool] = lambda _: False
        """Waits so long while others go on; False where the caller cannot stand still."""
        self.path = ""
        self.refused: Callable[[str], None] = lambda _: None
        """Called with the segment that there was no room for."""
        self.no_room: set[str] = set()
        """Files without room for a write, since a process began."""
        self.stalled: Callable[[float], None] = lambda _: None
        """Called with the time for which an operation has blocked its thread."""
        self.recovers: Callable[[], bool] = lambda: False
        """True while the present code opens a log: it cannot tell a misread from a torn tail."""
        self.keeps_all: list[Callable[[], bool]] = []
        """Conditions: while any of them holds, a loss of power takes nothing."""
        self.counts: dict[str, int] = {}
        """The number of times that each fault has struck."""
        self.struck: list[tuple[str, str]] = []
        """The kind and the file of each fault that has struck."""
        self.mended = 0
        """The part of `struck` that a recovery has repaired by writing the pages again."""
        self._rng = rng
        self.wall = wall
        self.root = Directory()
        self._journal: list[tuple[Change, ...]] = []
        self._locks: dict[int, SimFs] = {}
        self._used = 0

    # Paths

    def find(self, path: str) -> Inode | Directory:
        found: Inode | Directory = self.root
        for part in parts(path):
            if not isinstance(found, Directory):
                raise os_error(errno.ENOTDIR, path)
            below = found.entries.get(part)
            if below is None:
                raise os_error(errno.ENOENT, path)
            found = below
        return found

    def parent(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rstrip("/").rpartition("/")
        directory = self.find(above)
        if not isinstance(directory, Directory):
            raise os_error(errno.ENOTDIR, path)
        return directory, name

    def change(self, *changes: Change) -> None:
        """Adds one atomic entry to the metadata journal."""
        for directory, name, node in changes:
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node
        self._journal.append(changes)

    def commit(self, directory: Directory) -> None:
        """Makes the journal durable up to the last entry about `directory`."""
        last = 0
        for number, changes in enumerate(self._journal, start=1):
            if any(changed is directory for changed, _, _ in changes):
                last = number
        self._apply(last)

    def _apply(self, count: int) -> None:
        for changes in self._journal[:count]:
            for directory, name, node in changes:
                if node is None:
                    directory.durable.pop(name, None)
                else:
                    directory.durable[name] = node
        del self._journal[:count]

    def lose_power(self, survival: float = 0.5) -> None:
        """Takes back everything that is not durable; `survival` is the share that lasts all the
        same.
        """
        survival = 1.0 if any(keeps() for keeps in self.keeps_all) else survival
        journal = len(self._journal)
        self._apply(journal if self._rng.random() < survival else self._rng.randint(0, journal))
        self._journal.clear()
        self._used = 0
        self._restore(self.root, survival)

    def _restore(self, directory: Directory, survival: float) -> None:
        directory.entries = dict(directory.durable)
        for node in directory.entries.values():
            if isinstance(node, Directory):
                self._restore(node, survival)
                continue
            if node.dirty:
                node.lose_power(self._rng, survival)
            self._used += len(node.data)

    def commit_all(self) -> None:
        """Makes every name durable."""
        self._apply(len(self._journal))

    def put(self, root: Directory) -> None:
        """Puts other files, all of them durable, in the place of the present ones."""
        self.wipe()
        self.root = root

    def wipe(self) -> None:
        """A new disk of the same size."""
        self.root = Directory()
        self._journal.clear()
        self._used = 0

    # Faults

    def begin(self, operation: str, path: str) -> None:
        self.operations += 1
        self.path = path
        for crash in tuple(self.crashes):
            crash(self.operations, operation)
            if crash not in self.crashes:
                return
        for delay in tuple(self.delays):
            pause_s = delay(operation, path)
            if pause_s > 0:
                self.stand_still(pause_s)

    def is_misread(self, path: str) -> bool:
        """True if a read of that file goes wrong."""
        rate = self.faults.misread
        if rate == 0.0 or not can_be_misread(path) or self.recovers():
            return False
        return self.strikes(rate, "misread")

    def misread(self, data: bytearray, length: int, offset: int) -> bytes:
        """The requested number of bytes, from elsewhere in the file."""
        elsewhere = self._rng.randrange(max(1, len(data)))
        return bytes(data[elsewhere : elsewhere + length])

    def strikes(self, rate: float, fault: str) -> bool:
        if rate == 0.0 or self._rng.random() >= rate:
            return False
        self.counts[fault] = self.counts.get(fault, 0) + 1
        self.struck.append((fault, self.path))
        return True

    @property
    def has_failed(self) -> bool:
        """True if an operation has ever been refused."""
        return any(self.counts.get(fault) for fault in REFUSALS)

    def touched(self, *faults: str, since: int = 0) -> set[str]:
        """The files struck by faults, after the first `since` of all faults."""
        return {path for fault, path in self.struck[since:] if fault in faults}

    def stall(self) -> None:
        if not self.strikes(self.faults.stall, "stall"):
            return
        if self.faults.stall_s >= HANG_S:
            self.faults.stall = (
                0.0  # once only: otherwise all operations behind it would wait as long again
            )
            self.counts["disk operation hung"] = self.counts.get("disk operation hung", 0) + 1
        self.stalled(self.faults.stall_s)

    def room_for(self, wanted: int, path: str = "") -> int:
        """The number of the `wanted` bytes that are written to the file at `path`."""
        if self.strikes(self.faults.write_error, "write error"):
            raise os_error(errno.EIO, "")
        self.stall()
        room = self.capacity - self._used
        if room <= 0 < wanted:
            self.counts["disk full"] = self.counts.get("disk full", 0) + 1
            self.no_room.add(path)
            if path.endswith(".log"):
                self.refused(path)
            raise os_error(errno.ENOSPC, "")
        if wanted > 1 and self.strikes(self.faults.short_write, "short write"):
            wanted = self._rng.randint(1, wanted - 1)
        return min(room, wanted)

    @property
    def is_short(self) -> bool:
        """True while a full disk has refused a write of the present process."""
        return self.capacity < CAPACITY and bool(self.no_room)

    def use(self, more: int) -> None:
        self._used += more

    @property
    def used(self) -> int:
        """Bytes in all files; bytes of deleted files are free at once."""
        return self._used

    def lock(self, node: Inode, holder: SimFs) -> None:
        owner = self._locks.get(id(node))
        if owner is not None and owner.alive and owner is not holder:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
        self._locks[id(node)] = holder

    def unlock(self, node: Inode, holder: SimFs) -> None:
        if self._locks.get(id(node)) is holder:
            del self._locks[id(node)]
