"""What a simulated disk is made of: directories, and the rates of its faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_chaos.sim.inode import Inode


class Directory:
    """Names as processes see them, and as the platter has them."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}


Change = tuple[Directory, str, "Inode | Directory | None"]


@dataclass(slots=True)
class DiskFaults:
    """What goes wrong from here on. Rates are probabilities of one operation."""

    read_error: float = 0.0
    misread: float = 0.0
    """A read of a log or an index gets the bytes of another place in the file."""
    write_error: float = 0.0
    short_write: float = 0.0
    fsync_error: float = 0.0
    slow: float = 1.0
    """Factor on what an operation takes."""
    stall: float = 0.0
    stall_s: float = 0.0
    """A write or fsync takes so long, with this probability; a long one (`HANG_S`) comes once."""
