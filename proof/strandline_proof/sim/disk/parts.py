"""Parts of a simulated disk: directories, paths, and the rates of its faults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.topology.topology import COMPACTED

if TYPE_CHECKING:
    from strandline_proof.sim.disk.inode import Inode

HANG_S: Final = 1.0
"""Shortest duration of a hang: a broker's session. A hanging operation blocks its own thread; it
blocks the event loop only if the loop itself calls it, as it does for appends.
"""
MISREAD: Final = (".log", ".index", ".timeindex")
NOT_MISREAD: Final = f"/{COMPACTED}-"
"""Logs that are never misread: where batches may be missing, a later batch of the same size looks
like the requested one.
"""


class Directory:
    """The names in a directory, as processes see them and as the platter has them."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}


Change = tuple[Directory, str, "Inode | Directory | None"]


@dataclass(slots=True)
class DiskFaults:
    """Faults from here on. Rates are probabilities of one operation."""

    read_error: float = 0.0
    misread: float = 0.0
    """A read of a log or an index returns bytes of another place in the file."""
    write_error: float = 0.0
    short_write: float = 0.0
    fsync_error: float = 0.0
    slow: float = 1.0
    """Factor on the duration of an operation."""
    stall: float = 0.0
    stall_s: float = 0.0
    """Duration of a stall of a write or fsync, with this probability; a long one (`HANG_S`) happens
    once.
    """


@lru_cache(maxsize=4096)
def parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def can_be_misread(path: str) -> bool:
    return path.endswith(MISREAD) and NOT_MISREAD not in path


def os_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
