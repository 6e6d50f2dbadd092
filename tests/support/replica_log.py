"""A replicated log as small as can be: records with epochs in a list, for tests of the core.

All of it is durable at once: what a loss of power takes is for the tests of the storage layer.
"""

from dataclasses import dataclass, field
from typing import Final

from strandline_proto.ids import Offset

BEGINNING: Final = Offset(0)


@dataclass(frozen=True)
class Entry:
    epoch: int
    value: str


@dataclass
class ReplicaLog:
    log_start_offset: Offset = BEGINNING
    entries: list[Entry] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, where it starts), oldest first; the last one may have no records yet."""
    high_watermark: Offset = BEGINNING

    @property
    def log_end_offset(self) -> Offset:
        return Offset(self.log_start_offset + len(self.entries))

    def at(self, offset: int) -> Entry:
        assert offset >= self.log_start_offset
        return self.entries[offset - self.log_start_offset]

    def values(self) -> list[str]:
        return [e.value for e in self.entries]

    def assign_epoch(self, epoch: int) -> None:
        """I-46: what a new leader does first."""
        if epoch > self.latest():
            if self.epochs and self.epochs[-1][1] == self.log_end_offset:
                self.epochs.pop()  # start offsets increase strictly (I-5)
            self.epochs.append((epoch, self.log_end_offset))

    def append(self, entry: Entry) -> None:
        assert entry.epoch >= self.latest(), "I-2"
        self.assign_epoch(entry.epoch)
        self.entries.append(entry)

    def read(self, start: int, *, limit: int = 1000) -> list[Entry]:
        return self.entries[start - self.log_start_offset :][:limit]

    def truncate_to(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.log_end_offset
        del self.entries[offset - self.log_start_offset :]
        self.epochs = [(e, s) for e, s in self.epochs if s < offset]
        self.high_watermark = Offset(min(self.high_watermark, offset))

    def truncate_fully(self, start_at: int) -> None:
        self.log_start_offset = self.high_watermark = Offset(start_at)
        self.entries, self.epochs = [], []

    def drop_before(self, offset: int) -> None:
        """Retention: the log starts at `offset` from now on."""
        assert self.log_start_offset <= offset <= self.high_watermark
        del self.entries[: offset - self.log_start_offset]
        self.log_start_offset = Offset(offset)
        first = self._epoch_at(offset)
        self.epochs = [(e, s) for e, s in self.epochs if s > offset]
        if first is not None:
            self.epochs.insert(0, (first, offset))

    def latest(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """I-37, word by word."""
        if epoch == -1 or not self.epochs or epoch > self.latest():
            return (-1, -1)
        if epoch == self.latest():
            return (epoch, log_end_offset)
        if epoch < self.epochs[0][0]:
            return (epoch, self.epochs[0][1])
        floor = max(e for e, _ in self.epochs if e <= epoch)
        return (floor, min(s for e, s in self.epochs if e > epoch))

    def _epoch_at(self, offset: int) -> int | None:
        covering = [e for e, s in self.epochs if s <= offset]
        return covering[-1] if covering else None
