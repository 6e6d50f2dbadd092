"""Delivers fetched records to the user: decodes batch by batch, in order, and moves positions."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from strandline._consumer.records import decode
from strandline._core.aborted_filter import AbortedFilter
from strandline._net.arguments import whole
from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT, Bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline._consumer.fetcher import Fetcher
    from strandline._core.cluster_view import PartitionKey
    from strandline._core.position import Position
    from strandline.types import ConsumerRecord, TopicPartition


Batch = tuple[list["ConsumerRecord"], int, int]
"""Records, the offset after them, and their leader epoch."""


class Held(NamedTuple):
    """A batch that is held back until its records are deserialized."""

    records: list[ConsumerRecord]
    next_offset: int
    epoch: int
    error: Exception | None = None
    """The error of the first record, if it is known."""


class _Opened:
    """A chunk under delivery, and its batch whose records are next."""

    __slots__ = ("at", "batches", "epoch", "held", "next_offset", "put_back", "records")

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches = batches
        self.put_back: list[Batch] = []
        """Comes before the batches, the last one first."""
        self.records: list[ConsumerRecord] = []
        self.at = 0
        self.next_offset = -1
        self.epoch = -1
        self.held: Held | None = None


class Delivery:
    """The delivery from the fetcher's buffers to the user, for each partition."""

    def __init__(self, *, check_crcs: bool, max_decompressed_bytes: int) -> None:
        whole("max_decompressed_bytes", max_decompressed_bytes, 1, DECOMPRESSED_BYTES_LIMIT)
        self.source: Fetcher | None = None
        self.delivered = 0
        """Records handed out, those that were taken back included."""
        self.is_holding = False
        """True if each batch is held back until `resolve`."""
        self._check_crcs = check_crcs
        self._bound = Bound(max_decompressed_bytes, "the consumer's max_decompressed_bytes")
        self._opened: dict[PartitionKey, _Opened] = {}
        self._turn = 0
        self._first_at: dict[PartitionKey, int] = {}
        """The turn in which each partition was the first."""

    def forget(self, key: PartitionKey) -> None:
        """Drops the state of a partition that the user has moved or that is not assigned now."""
        self._opened.pop(key, None)

    def start_over(self, position: Position) -> None:
        """Drops the read-ahead of a moved position."""
        assert self.source is not None
        self.forget(position.key)
        self.source.moved(position)

    def put_back(
        self, position: Position, records: list[ConsumerRecord], end: tuple[int, int], epoch: int
    ) -> None:
        """Takes records back for a second delivery, after which the position is at `end`.

        `epoch` is the epoch of the record before them.
        """
        opened = self._opened.get(position.key)
        if opened is None:
            opened = self._opened[position.key] = _Opened(iter(()))
        elif opened.at < len(opened.records):
            opened.put_back.append((opened.records[opened.at :], opened.next_offset, opened.epoch))
        opened.records, opened.at = [], 0
        runs = [list(run) for _, run in groupby(records, key=lambda r: r.leader_epoch)]
        opened.put_back.append(([], *end))
        next_offset = end[0]
        for run in reversed(runs):
            opened.put_back.append((run, next_offset, run[-1].leader_epoch))
            next_offset = run[0].offset
        position.on_delivered(records[0].offset, epoch)

    def held(self, position: Position) -> Held | None:
        """The next batch of a position, if it is held back and no record before it is left."""
        if self._open(position, more=True) is not None:
            return None
        opened = self._opened.get(position.key)
        return None if opened is None else opened.held

    def resolve(
        self,
        position: Position,
        held: Held,
        records: list[ConsumerRecord],
        *,
        upto: int | None = None,
        error: Exception | None = None,
    ) -> None:
        """Replaces a batch that was held back by its deserialized records.

        With `error`, they are those below the offset `upto`; the others are held back again, and
        the error is that of the first. A batch of a position that has moved meanwhile is gone.
        """
        opened = self._opened.get(position.key)
        if opened is None or opened.held is not held:
            return
        opened.held = None
        next_offset = held.next_offset
        if upto is not None:
            left = [record for record in held.records if record.offset >= upto]
            opened.held, next_offset = held._replace(records=left, error=error), upto
        opened.records, opened.at = records, 0
        opened.next_offset, opened.epoch = next_offset, held.epoch
        if not records:
            position.on_delivered(next_offset, held.epoch)

    def fail(self, position: Position, held: Held, error: Exception) -> None:
        """Ends the delivery from a position: polls raise the error until it is moved."""
        opened = self._opened.get(position.key)
        if opened is not None and opened.held is held:
            position.fail(error)
            self.start_over(position)

    def collect(
        self, positions: list[Position], limit: int | None, *, one_chunk: bool = False
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns the available records, up to `limit`; partitions take turns at being first.

        With `one_chunk`, returns one fetched chunk of one partition only. Raises a partition's
        error in its turn, or if no other record is available. Traffic on other partitions does not
        hide the error, and the error does not block their records.
        """
        if not positions:
            return {}
        turn = min(range(len(positions)), key=lambda at: self._first_at.get(positions[at].key, 0))
        self._turn += 1
        self._first_at[positions[turn].key] = self._turn
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = limit
        error: Exception | None = None
        for position in positions[turn:] + positions[:turn]:
            if left == 0:
                break
            records = self._deliver(position, left, one_chunk=one_chunk)
            if records:
                found[position.partition] = records
                self.delivered += len(records)
                left = None if left is None else left - len(records)
                if one_chunk:
                    break
            elif position.error is not None:
                error = error or position.error
                if position is positions[turn]:
                    break
        if error is not None and not found:
            raise error
        return found

    def _deliver(
        self, position: Position, limit: int | None, *, one_chunk: bool
    ) -> list[ConsumerRecord]:
        """Delivers up to `limit` records of one partition, or those of one chunk."""
        out: list[ConsumerRecord] = []
        while limit is None or len(out) < limit:
            more = not out or (limit is not None and not one_chunk)
            opened = self._open(position, more=more)
            if opened is None:
                break
            end = len(opened.records)
            if limit is not None:
                end = min(end, opened.at + limit - len(out))
            whole = opened.at == 0 and end == len(opened.records)
            out += opened.records if whole else opened.records[opened.at : end]
            opened.at = end
            if end < len(opened.records):
                position.on_delivered(opened.records[end].offset, opened.epoch)
            else:
                position.on_delivered(opened.next_offset, opened.epoch)
        return out

    def _open(self, position: Position, *, more: bool) -> _Opened | None:
        """The chunk to deliver from, with at least one record; None if no record is available."""
        assert self.source is not None
        key = position.key
        while True:
            opened = self._opened.get(key)
            if opened is None:
                chunk = self.source.take(key) if more else None
                if chunk is None:
                    return None
                opened = self._opened[key] = _Opened(
                    decode(
                        chunk.data,
                        position.partition,
                        position.offset,
                        check_crcs=self._check_crcs,
                        bound=self._bound,
                        aborted=AbortedFilter(chunk.aborted) if chunk.aborted else None,
                    )
                )
            if opened.at < len(opened.records):
                return opened
            put_back = opened.put_back
            if opened.held is not None and not put_back:
                return None
            try:
                was_put_back = bool(put_back)
                batch = put_back.pop() if was_put_back else next(opened.batches, None)
            except Exception as error:  # noqa: BLE001 - raised by collect, after earlier records
                position.fail(error)
                self.start_over(position)
                return None
            if batch is None:
                del self._opened[key]
                continue
            if self.is_holding and batch[0] and not was_put_back:
                opened.held = Held(*batch)
                return None
            opened.records, opened.next_offset, opened.epoch = batch
            opened.at = 0
            if not opened.records:
                position.on_delivered(opened.next_offset, opened.epoch)
