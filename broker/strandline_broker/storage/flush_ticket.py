"""What one flush of a log makes durable: taken on the event loop, carried out in the disk pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_broker.storage.file import File
    from strandline_broker.storage.log import Log
    from strandline_broker.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class FlushTicket:
    log: Log
    generation: int
    """The log's `truncations` when the ticket was taken; another value makes the ticket void."""
    rolls: int
    end_offset: int
    files: tuple[File, ...]
    sealed: tuple[Segment, ...]
    sync_directory: bool

    def run(self) -> None:
        """Blocking. An OSError is final: the process must not go on with this directory (P-24)."""
        for file in self.files:
            file.sync()
        if self.sync_directory:
            self.log.sync_directory()
