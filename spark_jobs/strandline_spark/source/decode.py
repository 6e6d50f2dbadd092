"""The decoder of one partition's raw batches, as FetchRange delivers them, into Arrow record
batches. No Python loop runs over rows.

Python reads each batch's header and checks its CRC. A compiled walk finds the position of each
record's key and value. Arrow's `take` copies them out of the raw buffer. Bodies of compressed and
of plain batches go into one buffer in the order of their offsets, so rows keep their order.

No checksum covers a batch's base offset and leader epoch; only their order protects them (I-5). So
the decoder checks three things:

* offsets rise
* epochs never decrease
* a batch that claims to be dense yields every offset that it covers
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from strandline._core.aborted_filter import AbortedFilter
from strandline_proto.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_matches, iter_headers
from strandline_proto.decompression import Bound, decompress
from strandline_proto.errors import CorruptMessage, RecordTooLarge, UnsupportedVersion
from strandline_spark.source import row_walk
from strandline_spark.source.row_walk import SOUND
from strandline_spark.source.schema import HEADER_TYPE, PLAIN, TIMESTAMP_TYPE, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from strandline_proto.decompression import Buffer

# Decompressed bodies are emitted once they reach this size. That bounds memory, and larger Arrow
# batches gain nothing. With one more message and one more body of at most 1 GiB, a group stays
# below the 2 GiB limit of Arrow's binary columns.
GROUP_BYTES: Final = 8 << 20
OPTION: Final = "the option maxDecompressedBytes"
# The seven one-byte fields that even an empty record has.
RECORD_BYTES_MIN: Final = 7
# The range of milliseconds whose microseconds fit 64 bits. Values outside are set to the nearest
# end.
TIMESTAMP_MS_MAX: Final = (1 << 63) // 1000 - 1
DEFAULT_BOUND: Final = Bound(option=OPTION)


@dataclass(slots=True)
class _Body:
    header: BatchHeader
    records: memoryview
    at: int


@dataclass(frozen=True, slots=True)
class _Positions:
    """The positions of a group's rows: see `row_walk.rows`."""

    marks: Any
    nulls: Any
    offsets: Any
    timestamps: Any
    batch_of: Any


class RangeDecoder:
    """Decodes the messages of one range [start, stop), in order, and accounts for every offset in
    it.

    `position` is the next expected offset. `rows` counts the rows yielded. `skipped` counts the
    offsets without a record: control batches, aborted transactions, and holes that compaction left.
    `lost` counts the offsets whose records are gone.
    `rows + skipped + lost == position - start` always.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        start: int,
        stop: int,
        *,
        columns: tuple[str, ...] = PLAIN,
        bound: Bound = DEFAULT_BOUND,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.stop = stop
        self.position = start
        self.rows = 0
        self.skipped = 0
        self.lost = 0
        self.leader_epoch = -1
        self._schema = arrow_schema(columns)
        self._bound = bound

    def decode(self, records: Buffer, aborted: Iterable[tuple[int, int]] = ()) -> Iterator[Any]:
        """Yields the Arrow batches of one message. Raises CorruptMessage before it yields anything
        of a broken batch.

        `aborted` has the aborted transactions among the records, by producer id and first offset.
        Their records are skipped.
        """
        group: list[_Body] = []
        size = 0
        for body in self._bodies(records, AbortedFilter(aborted)):
            group.append(body)
            size += len(body.records) if body.at < 0 else 0
            if size >= GROUP_BYTES:
                yield from self._emit(group, records)
                group, size = [], 0
        yield from self._emit(group, records)

    def finish(self, next_offset: int) -> None:
        """Counts the missing offsets below `next_offset` as skipped: the broker has served
        everything below it.
        """
        end = min(max(next_offset, self.position), self.stop)
        self.skipped += end - self.position
        self.position = end

    def lose(self, next_offset: int) -> None:
        """Counts the missing offsets below `next_offset` as lost."""
        end = min(max(next_offset, self.position), self.stop)
        self.lost += end - self.position
        self.position = end

    def _where(self, offset: int) -> str:
        return f"{self.topic}:{self.partition} at offset {offset}"

    def _bodies(self, records: Buffer, aborted: AbortedFilter) -> Iterator[_Body]:
        view = memoryview(records)
        # A message may be decoded again after a failure. So its facts count only once it was
        # emitted.
        at, previous_end, epoch = 0, -1, self.leader_epoch
        for at, header in iter_headers(view):
            if header.magic != MAGIC:
                raise UnsupportedVersion(
                    f"{self._where(header.base_offset)}: message format {header.magic}, expected 2"
                )
            if not crc_matches(view, at, header):
                raise CorruptMessage(f"{self._where(header.base_offset)}: CRC-32C does not match")
            if header.base_offset < previous_end or header.last_offset_delta < 0:
                raise CorruptMessage(f"{self._where(header.base_offset)}: offsets go back")
            if header.leader_epoch < epoch:
                raise CorruptMessage(f"{self._where(header.base_offset)}: leader epochs go back")
            previous_end = header.next_offset
            epoch = header.leader_epoch
            is_hidden = aborted.hides(view, at, header)
            if header.is_control or is_hidden or header.next_offset <= self.position:
                continue
            if header.base_offset >= self.stop:
                return
            body = view[at + HEADER_SIZE : at + header.size]
            if header.compression == 0:
                yield _Body(header, body, at + HEADER_SIZE)
            else:
                yield _Body(header, self._unpacked(header, body), -1)
        self._check_whole(view, at)

    def _unpacked(self, header: BatchHeader, body: memoryview) -> memoryview:
        try:
            return memoryview(decompress(body, header.compression, self._bound))
        except RecordTooLarge as error:
            raise RecordTooLarge(f"{self._where(header.base_offset)}: {error}") from error
        except (CorruptMessage, UnsupportedVersion) as error:
            where = f"{self._where(header.base_offset)}: the records of the batch do not parse"
            raise type(error)(f"{where}: {error}") from error

    def _check_whole(self, view: memoryview, last_at: int) -> None:
        consumed = last_at
        for at, header in iter_headers(view, last_at):
            consumed = at + header.size
        if consumed != len(view):
            raise CorruptMessage(f"{self._where(self.position)}: a batch is cut off")

    def _emit(self, group: list[_Body], records: Buffer) -> Iterator[Any]:
        if not group:
            return
        buffer = records if all(body.at >= 0 for body in group) else _joined(group)
        columns = self._columns(buffer, group)
        if columns is not None:
            yield columns

    def _columns(self, buffer: Buffer, group: list[_Body]) -> Any:
        batches = self._batch_table(group)
        rows_max = int(batches[:, 2].sum())
        marks = np.empty(4 * rows_max + 1, np.int32)
        nulls = np.empty((2, rows_max), np.bool_)
        offsets = np.empty(rows_max, np.int64)
        timestamps = np.empty(rows_max, np.int64)
        batch_of = np.empty(rows_max, np.int32)
        headers = np.empty((3, rows_max), np.int32)
        rows, broken = row_walk.rows(
            buffer,
            batches,
            self.position,
            self.stop,
            marks,
            nulls,
            offsets,
            timestamps,
            batch_of,
            headers,
        )
        if broken != SOUND:
            offset = group[broken].header.base_offset
            raise CorruptMessage(f"{self._where(offset)}: the records of the batch do not parse")
        self._account(group, rows)
        if rows == 0:
            return None
        positions = _Positions(
            marks[: 4 * rows + 1], nulls, offsets[:rows], timestamps[:rows], batch_of[:rows]
        )
        makers = self._makers(positions, group, pa.py_buffer(buffer))
        makers["headers"] = lambda: self._headers(buffer, headers[:, :rows])
        columns = [makers[name]() for name in self._schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _makers(
        self, found: _Positions, group: list[_Body], data: Any
    ) -> dict[str, Callable[[], Any]]:
        """Returns a function for each column; a column that is not wanted costs nothing."""
        rows = len(found.offsets)

        def of_batch(name: str, kind: Any) -> Any:
            values = np.array([getattr(body.header, name) for body in group], kind)
            return pa.array(values[found.batch_of])

        def spans(first: int) -> Any:
            null = found.nulls[first // 2, :rows]
            return _taken(_spans(found.marks, data), first, rows, null)

        def times() -> Any:
            limited = np.clip(found.timestamps, -TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX)
            return pa.array(limited * 1000).view(TIMESTAMP_TYPE)

        return {
            "key": lambda: spans(0),
            "value": lambda: spans(2),
            "topic": lambda: pa.repeat(pa.scalar(self.topic, pa.string()), rows),
            "partition": lambda: pa.repeat(pa.scalar(self.partition, pa.int32()), rows),
            "offset": lambda: pa.array(found.offsets),
            "timestamp": times,
            "timestampType": lambda: of_batch("is_log_append_time", np.int32),
            "leaderEpoch": lambda: of_batch("leader_epoch", np.int32),
            "producerId": lambda: of_batch("producer_id", np.int64),
            "producerEpoch": lambda: of_batch("producer_epoch", np.int32),
            "baseSequence": lambda: of_batch("base_sequence", np.int32),
        }

    def _batch_table(self, group: list[_Body]) -> Any:
        """Returns one row for each batch, in the walk's form. Counts are checked before memory is
        allocated by them.
        """
        table = np.empty((len(group), 7), np.int64)
        laid = 0
        in_place = all(body.at >= 0 for body in group)
        for i, body in enumerate(group):
            header, size = body.header, len(body.records)
            if (
                not 0
                <= header.record_count
                <= min(size // RECORD_BYTES_MIN, header.last_offset_delta + 1)
            ):
                raise CorruptMessage(
                    f"{self._where(header.base_offset)}: {header.record_count} records cannot be "
                    f"in {size} bytes"
                    f" and {header.last_offset_delta + 1} offsets"
                )
            at = body.at if in_place else laid
            append_time = header.max_timestamp if header.is_log_append_time else -1
            table[i] = (
                at,
                at + size,
                header.record_count,
                header.base_offset,
                header.last_offset,
                header.base_timestamp,
                append_time,
            )
            laid += size
        return table

    def _account(self, group: list[_Body], rows: int) -> None:
        """Checks that every offset up to the end of the group is a row, or a hole that the batches
        show.
        """
        last = group[-1].header
        end = min(last.next_offset, self.stop)
        self.rows += rows
        self.skipped += end - self.position - rows
        self.position = end
        self.leader_epoch = last.leader_epoch

    def _headers(self, buffer: Buffer, headers: Any) -> Any:
        counts = headers[2]
        total = int(counts.sum())
        kind = self._schema.field("headers").type
        if total == 0:
            return pa.nulls(len(counts), kind)
        marks = np.empty(4 * total + 1, np.int32)
        nulls = np.zeros(total, np.bool_)
        with_headers = np.ascontiguousarray(headers[:, counts > 0])
        broken = row_walk.headers(buffer, with_headers, marks, nulls)
        if broken != SOUND:
            raise CorruptMessage(f"{self._where(self.position)}: a record's headers do not parse")
        spans = _spans(marks, pa.py_buffer(buffer))
        keys = _text(_taken(spans, 0, total, np.zeros(total, np.bool_)))
        pairs = pa.StructArray.from_arrays(
            [keys, _taken(spans, 2, total, nulls)], fields=list(HEADER_TYPE)
        )
        ends = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=ends[1:])
        # As in Spark's Kafka source, a record without headers has a null list, not an empty one.
        return pa.ListArray.from_arrays(
            pa.array(ends),
            pairs,
            type=kind,
            mask=pa.array(counts == 0),
        )


def _joined(group: list[_Body]) -> bytes:
    return b"".join(body.records for body in group)


def _spans(marks: Any, data: Any) -> Any:
    """Returns the buffer, cut at every mark, as one binary array (key, gap, value, gap, key, …).
    Nothing is copied.
    """
    return pa.Array.from_buffers(
        pa.binary(), len(marks) - 1, [None, pa.py_buffer(np.ascontiguousarray(marks)), data]
    )


def _taken(spans: Any, first: int, rows: int, null: Any) -> Any:
    """Returns every fourth span from `first`; null where the record has null."""
    indices = np.arange(first, 4 * rows + first, 4, dtype=np.int32)
    if null.any():
        return spans.take(pa.array(indices, mask=null))
    return spans.take(pa.array(indices))


def _text(keys: Any) -> Any:
    """Returns header keys as strings. A key that is not UTF-8 is repaired as Java does it, so that
    no record stops a table.
    """
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
