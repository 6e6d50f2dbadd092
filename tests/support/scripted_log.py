"""The log of one partition in memory, as a leader of the scripted cluster keeps it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline_proto import errors
from strandline_proto.batch import add_sequence, check_batch, prefix, read_header, read_records
from support.scripted_transactions import end_marker

if TYPE_CHECKING:
    from strandline_proto.batch import Record


@dataclass(frozen=True)
class Act:
    """What a leader does with the next produced batch instead of its duty."""

    code: int = 0
    append: bool = False
    answer: bool = True
    message: str = ""
    drop_stream: bool = False


@dataclass
class Partition:
    leader: int
    leader_epoch: int = 0
    batches: list[tuple[int, bytes]] = field(default_factory=list)
    end: int = 0
    start: int = 0
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """producer id -> (epoch, last sequence)"""
    recent: dict[tuple[int, int, int], int] = field(default_factory=dict)
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    acts: deque[Act] = field(default_factory=deque)
    min_isr_short: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    open_transactions: dict[int, int] = field(default_factory=dict)
    """producer id -> first offset"""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of the marker)"""

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return min([self.end, *self.open_transactions.values()])

    def end_transaction(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        first = self.open_transactions.pop(producer_id, None)
        if not committed and first is not None:
            self.aborted.append((producer_id, first, self.end))
        self.append(
            end_marker(producer_id, producer_epoch, committed=committed), idempotent_check=False
        )
        self.producers[producer_id] = (producer_epoch, -1)

    def append(self, data: bytes, *, idempotent_check: bool = True) -> tuple[int, int]:
        """(error code, base offset)"""
        header = check_batch(data)
        key = (header.producer_id, header.producer_epoch, header.base_sequence)
        if header.producer_id >= 0 and idempotent_check:
            epoch, last = self.producers.get(header.producer_id, (-1, -1))
            if header.producer_epoch < epoch:
                return errors.InvalidProducerEpoch.code, -1
            if key in self.recent:
                return 0, self.recent[key]
            expected = 0 if last == -1 or header.producer_epoch != epoch else add_sequence(last, 1)
            if header.base_sequence != expected:
                return errors.OutOfOrderSequenceNumber.code, -1
            self.producers[header.producer_id] = (header.producer_epoch, header.last_sequence)
        base = self.end
        if header.is_transactional and not header.is_control:
            self.open_transactions.setdefault(header.producer_id, base)
        self.recent[key] = base
        stored = prefix(base, header.batch_length, self.leader_epoch) + data[16:]
        if not self.epoch_starts or self.epoch_starts[-1][0] < self.leader_epoch:
            self.epoch_starts.append((self.leader_epoch, base))
        self.batches.append((base, stored))
        self.end = base + header.record_count
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
        return 0, base

    def read(self, offset: int, max_bytes: int, limit: int | None = None) -> bytes:
        out = b""
        for base, data in self.batches:
            if read_header(data).next_offset <= offset:
                continue
            if limit is not None and base >= limit:
                break
            if out and len(out) + len(data) > max_bytes:
                break
            out += data
        return out

    def truncate(self, offset: int) -> None:
        self.batches = [(b, d) for b, d in self.batches if read_header(d).next_offset <= offset]
        self.end = self.batches[-1][0] + read_header(self.batches[-1][1]).record_count
        self.epoch_starts = [(e, s) for e, s in self.epoch_starts if s < self.end]
        self.recent = {k: v for k, v in self.recent.items() if v < self.end}

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        if epoch == self.leader_epoch:
            return epoch, self.end
        found = [(e, s) for e, s in self.epoch_starts if e <= epoch]
        later = [s for e, s in self.epoch_starts if e > epoch]
        if not found:
            return -1, -1
        return found[-1][0], (later[0] if later else self.end)

    def records(self) -> list[Record]:
        headers = [(d, read_header(d)) for _, d in self.batches]
        return [r for d, h in headers if not h.is_control for r in read_records(d, 0, h)]

    def values(self) -> list[bytes | None]:
        return [r.value for r in self.records()]
