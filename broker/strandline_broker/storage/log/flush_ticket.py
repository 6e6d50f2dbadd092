"""What one flush of a log makes durable: taken on the event loop, carried out in the disk pool."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_broker.storage.files.file import File
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.segment import Segment


@dataclass(frozen=True, slots=True)
class FlushTicket:
    log: Log
    generation: int
    """The state's `truncations` when the ticket was taken; another value makes the ticket void."""
    rolls: int
    end_offset: int
    files: tuple[File, ...]
    sealed: tuple[Segment, ...]
    sync_directory: bool

    def run(self) -> None:
        """Blocking. An OSError is final: the process must not go on with this directory (P-24)."""
        with self.log.noting_failure():
            for file in self.files:
                file.sync()
            if self.sync_directory:
                self.log.sync_directory()


def take_ticket(log: Log) -> FlushTicket:
    """Covers the log up to its present end.

    The log may grow, roll and be cut in the disk pool between any two of these reads, so their
    order is part of the promise: a cut after the generation makes the ticket void, and segments and
    their count, which are read after the end, are those of all that lies below it.
    """
    state = log.state
    generation = state.truncations
    end_offset = state.end
    segments = state.tail.segments
    rolls = state.rolls
    sealed = tuple(takewhile(lambda s: not s.flushed, reversed(segments[:-1])))
    try:
        files = [file for s in sealed for file in (s.view().file, *s.unsynced)]
        if end_offset > state.durable_end:
            files.append(segments[-1].view().file)
    except FileNotFoundError:
        if state.truncations == generation and not state.is_deleted:
            raise
        files = []  # cut away meanwhile, which was counted first: nobody goes by this ticket
    return FlushTicket(
        log=log,
        generation=generation,
        rolls=rolls,
        end_offset=end_offset,
        files=tuple(files),
        sealed=sealed,
        sync_directory=rolls > state.rolls_synced,
    )
