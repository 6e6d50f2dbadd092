"""Lines become records, in order, with a count of each outcome.

Portions of the input go to `send_many` one after the other. A portion begins when the one before
has been handed over, not when it has been acknowledged. So records of a partition keep the order of
the lines, and many batches are under way.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from strandline_cli.errors import CliError
from strandline_cli.interrupts import signals_cancel_task
from strandline_cli.records.line_records import BadLine, LineParser, Pair
from strandline_cli.records.pace import Pace
from strandline_cli.records.stdin_lines import read_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from strandline import Producer, Record

    Item = bytes | Pair | Record

_LAST_MOMENT_S: Final = 2.0
RECORD_BYTES_MAX: Final = (1 << 20) - 128
"""Limit of a record's bytes: a longer one exceeds the client's limit with its frame."""


@dataclass(slots=True)
class Counts:
    """The outcomes of the lines that were read."""

    unit: str = "lines"
    acknowledged: int = 0
    not_written: int = 0
    """Lines that are certainly not in the log."""
    unknown: int = 0
    """Lines that may be in the log."""
    cause: str | None = None
    """The reason why the first of them was not acknowledged."""
    stopped_early: bool = False

    @property
    def all_acknowledged(self) -> bool:
        return self.not_written == 0 and self.unknown == 0 and not self.stopped_early

    def document(self) -> dict[str, Any]:
        return {
            "acknowledged": self.acknowledged,
            "not_acknowledged": self.not_written + self.unknown,
            "may_have_been_written": self.unknown,
            "whole_input_read": not self.stopped_early,
            "cause": self.cause,
        }

    def summary(self) -> str:
        lost = self.not_written + self.unknown
        parts = [f"{lost} of {self.acknowledged + lost} {self.unit} were not acknowledged"]
        if self.unknown:
            parts.append(f"{self.unknown} of these may have been written all the same")
        if self.stopped_early:
            parts.append("the rest of the input was not read")
        text = ", ".join(parts)
        return text if self.cause is None else f"{text}: {self.cause}"

    def told(self) -> str:
        """The outcomes in words, of an input that was not read to its end."""
        parts = [f"{self.acknowledged} {self.unit} were acknowledged"]
        if self.unknown:
            parts.append(f"{self.unknown} may have been written")
        if self.not_written:
            parts.append(f"{self.not_written} were not written")
        return ", ".join([*parts, "the rest of the input was not sent"])

    def failed(self, cause: str, *, not_written: int = 0, unknown: int = 0) -> None:
        self.not_written += not_written
        self.unknown += unknown
        if self.cause is None:
            self.cause = cause


@dataclass(slots=True, kw_only=True)
class LineProducer:
    """One run of `strandline produce`."""

    bootstrap: str
    topic: str
    acks: str = "all"
    compression: str = "none"
    partition: int | None = None
    parse: "LineParser | Callable[[bytes], Record | None]" = field(default_factory=LineParser)
    given: "Sequence[Record] | None" = None
    """Records to send in place of standard input."""
    pace: Pace | None = None
    timeout_s: float = 120.0
    transactional_id: str | None = None
    transaction_size: int = 1000
    """Records of each transaction; the last one has what is left."""
    counts: Counts = field(default_factory=Counts)
    _lines_before: int = 0
    """Lines before the ones that are parsed."""
    _under_way: "set[_Portion]" = field(default_factory=set)

    async def run(self) -> None:
        """Send standard input to its end, or to the first failure that would affect every line.

        After a cancellation, by a signal too, the records under way have a moment, not their whole
        deadline. `give_up` then counts the rest.
        """
        with signals_cancel_task():
            await self._run()

    def give_up(self) -> None:
        """Count the records under way as they are, without further waiting."""
        self.counts.stopped_early = True
        for portion in self._under_way:
            self.counts.failed(
                "interrupted", not_written=portion.left, unknown=portion.handed_over_count
            )
        self._under_way.clear()

    async def _run(self) -> None:
        from strandline import Producer

        producer = Producer(
            self.bootstrap,
            acks=self.acks,
            compression_type=self.compression,
            delivery_timeout_ms=self.timeout_s * 1000,
            connect_timeout_ms=min(10.0, self.timeout_s) * 1000,
            transactional_id=self.transactional_id,
        )
        await producer.start()
        try:
            # An unknown topic or partition is reported before the first line is read.
            self._check_partition(await producer.partitions_for(self.topic))
            if self.transactional_id is None:
                await self._send_all(producer)
            else:
                await self._send_in_transactions(producer)
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await producer.stop()
            raise
        finally:
            await producer.stop()

    def _check_partition(self, there: frozenset[int]) -> None:
        if self.partition is not None and self.partition not in there:
            known = f"0 to {max(there)}" if len(there) > 1 else "0 alone"
            raise CliError(
                f"topic {self.topic!r} has no partition {self.partition}, it has {known}:"
                " nothing was sent"
            )

    async def _send_all(self, producer: "Producer") -> None:
        async with asyncio.TaskGroup() as group:
            sends: set[asyncio.Task[None]] = set()
            try:
                async for records in self._portions():
                    portion = _Portion(records)
                    sends = {send for send in sends if not send.done()}
                    sends.add(group.create_task(self._send(producer, portion)))
                    await portion.handed_over.wait()
                    if self.counts.stopped_early:
                        break
                if sends:
                    await asyncio.wait(sends)
            except asyncio.CancelledError:
                if sends:
                    await asyncio.wait(sends, timeout=_LAST_MOMENT_S)
                raise

    async def _send_in_transactions(self, producer: "Producer") -> None:
        """Sends the records in transactions, one after the other."""
        from strandline.errors import CommitOutcomeUnknown, StrandlineError, describe

        async for records in self._transactions():
            portion = _Portion(records)
            self._under_way.add(portion)
            try:
                async with producer.transaction():
                    await producer.send_many(self.topic, portion, partition=self.partition)
            except StrandlineError as why:
                count = len(records)
                unknown = count if isinstance(why, CommitOutcomeUnknown) else 0
                self.counts.failed(describe(why), not_written=count - unknown, unknown=unknown)
                self.counts.stopped_early = True
                self._under_way.discard(portion)
                return
            self._under_way.discard(portion)
            self.counts.acknowledged += len(records)

    async def _transactions(self) -> "AsyncIterator[Sequence[Item]]":
        """The records of each transaction."""
        held: list[Item] = []
        async for records in self._portions():
            held += records
            while len(held) >= self.transaction_size:
                yield held[: self.transaction_size]
                held = held[self.transaction_size :]
        if held:
            yield held

    async def _send(self, producer: "Producer", portion: "_Portion") -> None:
        from strandline.errors import RecordTooLarge, SendManyFailed, StrandlineError, describe

        self._under_way.add(portion)
        try:
            result = await producer.send_many(self.topic, portion, partition=self.partition)
        except SendManyFailed as why:
            result = why.result
            cause = why if why.cause is None else why.cause
            self.counts.failed(describe(cause), not_written=result.failed, unknown=result.unknown)
            # A too large portion affects no other; any other failure affects all.
            too_large = all(isinstance(error, RecordTooLarge) for error in result.errors)
            self.counts.stopped_early |= not too_large
        except StrandlineError as why:
            # Records of the portion that were sent before may still arrive.
            self.counts.failed(
                describe(why), not_written=portion.left, unknown=portion.handed_over_count
            )
            self.counts.stopped_early = True
            self._under_way.discard(portion)
            return
        finally:
            portion.handed_over.set()
        self._under_way.discard(portion)
        self.counts.acknowledged += result.acknowledged

    async def _portions(self) -> "AsyncIterator[Sequence[Item]]":
        """The records in the order of the input, at the pace, until a line is no record."""
        async for records in self._read():
            if self.pace is None:
                yield records
                continue
            for some in self.pace.slices(records):
                await self.pace.turn(len(some))
                yield some

    async def _read(self) -> "AsyncIterator[list[Item]]":
        if self.given is not None:
            yield self._without_long_ones(self.given)
            return
        async for lines in read_lines():
            yield self.records(lines)
            if self.counts.stopped_early:
                return

    def records(self, lines: list[bytes]) -> "list[Item]":
        """The records of some lines; too long ones are counted and left out."""
        parse = self.parse
        if isinstance(parse, LineParser) and parse.is_plain:
            return list(lines) if _is_short(lines) else self._without_long_ones(lines)
        found: list[Item] = []
        for number, line in enumerate(lines, self._lines_before + 1):
            try:
                record = parse(line)
            except BadLine as why:
                self.counts.failed(f"line {number} is no record: {why}", not_written=1)
                self.counts.stopped_early = True
                break
            if record is not None:
                found.append(record)
        self._lines_before += len(lines)
        return self._without_long_ones(found)

    def _without_long_ones(self, records: "Sequence[Item]") -> "list[Item]":
        short, longest = [], 0
        for record in records:
            size = _size(record)
            if size <= RECORD_BYTES_MAX:
                short.append(record)
            longest = max(longest, size)
        if len(short) < len(records):
            self.counts.failed(
                f"RecordTooLarge: a record of {longest} bytes is above the largest one"
                f" ({RECORD_BYTES_MAX} bytes); shorten it",
                not_written=len(records) - len(short),
            )
        return short


def _is_short(lines: list[bytes]) -> bool:
    return max(map(len, lines)) <= RECORD_BYTES_MAX


def _size(record: "Item") -> int:
    """The bytes of key, value and headers."""
    if isinstance(record, bytes):
        return len(record)
    if isinstance(record, tuple):
        return len(record[0] or b"") + len(record[1] or b"")
    headers = record.headers.items() if isinstance(record.headers, Mapping) else record.headers
    sizes = sum(len(name) + len(value or b"") for name, value in headers)
    return len(record.key or b"") + len(record.value or b"") + sizes


class _Portion(Iterable["Item"]):
    """Records that tell when the last of them has been taken."""

    def __init__(self, records: "Sequence[Item]") -> None:
        self.handed_over = asyncio.Event()
        self.handed_over_count = 0
        """Lines before the last taken one, which waits for room or was refused."""
        self._records = records

    @property
    def left(self) -> int:
        return len(self._records) - self.handed_over_count

    def __iter__(self) -> "Iterator[Item]":
        for count, record in enumerate(self._records):
            self.handed_over_count = count
            yield record
        self.handed_over_count = len(self._records)
        self.handed_over.set()
