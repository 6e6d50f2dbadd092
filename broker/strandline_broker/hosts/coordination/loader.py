"""Loading a shard: its log is read on the disk's thread, and replayed in slices that let the event
loop go on.

A load ends at the offset at which the leadership began, and advances by batches, of which
compaction may have left no record (I-112). What it does not know it skips and tells of once; a
record of a known type that does not parse ends it, as state without that record would be another
one. Records of open transactions and end markers go to the state in their order in the log, as they
did when they were written (I-146).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.config.parsers import RecordPlace
from strandline_broker.core.coordination.application import TransactionalState
from strandline_broker.core.coordination.wire import MalformedRecord
from strandline_proto.batch import end_marker, iter_headers, raw_records
from strandline_proto.errors import WireError
from strandline_proto.ids import NO_PRODUCER_ID, Offset, ProducerId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aiokafka.record._protocols import DefaultRecordProtocol

    from strandline_broker.core.coordination.application import LoggedState
    from strandline_broker.hosts.coordination.shard_context import ShardContext
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.reader import LogRead

READ_BYTES_MAX: Final = 1 << 20
SLICE_S: Final = 0.003
"""Longest stretch of replay. Work that comes meanwhile waits for at most two of them."""
RETRY_S: Final = 1.0
"""After a failure that says nothing against the disk."""


class CannotLoad(Exception):
    """A shard's log cannot be loaded, so the shard is out of service.

    If it `may_pass`, the load is tried again once the log can be read; otherwise an operator has
    to look at the log.
    """

    def __init__(self, why: str, *, may_pass: bool = False) -> None:
        super().__init__(why)
        self.may_pass = may_pass


async def load_state(
    context: ShardContext,
    partition: Partition,
    state: LoggedState,
    *,
    end: int,
    is_current: Callable[[], bool],
) -> None:
    """Replay all below `end`, or as much as is wanted. Raises CannotLoad."""
    clock = context.runtime.clock
    offset, unknown = partition.log.log_start_offset, 0
    while offset < end:
        read = await _read(context, partition, offset, end, is_current)
        if read is None or not is_current():
            return
        if read.next_offset <= offset:
            raise CannotLoad(f"nothing can be read at offset {offset}, and {end} is not reached")
        pause_s = clock.monotonic() + SLICE_S
        for entry in _entries(read.records, offset, end):
            unknown += not _replay(context, partition, state, entry)
            if clock.monotonic() >= pause_s:
                await asyncio.sleep(0)
                if not is_current():
                    return
                pause_s = clock.monotonic() + SLICE_S
        offset = read.next_offset
    if unknown:
        context.runtime.log.warning(
            "records of unknown types or versions are kept and not acted upon",
            partition=partition.name,
            records=unknown,
        )


async def _read(
    context: ShardContext,
    partition: Partition,
    offset: int,
    end: int,
    is_current: Callable[[], bool],
) -> LogRead | None:
    size = min(READ_BYTES_MAX, context.loads.buffer_bytes)
    while is_current():
        try:
            return await context.dirs.in_disk_pool(
                partition.log,
                lambda: partition.read_log(offset, max_bytes=size, limit=end, checked=True),
            )
        except WireError as error:
            if not isinstance(error.__cause__, OSError) or partition.out_of_service is not None:
                raise CannotLoad(str(error), may_pass=True) from error
            await asyncio.sleep(RETRY_S)
    return None


async def until_sound(partition: Partition, end: int, is_wanted: Callable[[], bool]) -> None:
    """Wait until nothing below `end` is marked as damaged: a disk may read right again (what it
    gave was of another place), or another replica's bytes are put there.
    """
    while is_wanted():
        await asyncio.sleep(RETRY_S)
        damage = partition.log.damaged_ranges.next_to(partition.log.log_start_offset)
        if damage is None or damage.start >= end:
            return


class _Entry(NamedTuple):
    """A record or, without one, an end marker."""

    record: DefaultRecordProtocol | None
    producer_id: ProducerId
    """The producer of a marker, or of the open transaction that the record belongs to; -1: the
    record belongs to none.
    """
    is_commit: bool = False


def _entries(data: bytes, start: int, end: int) -> Iterator[_Entry]:
    for at, header in iter_headers(data):
        if header.is_control:
            marker = end_marker(data, at, header)
            if marker is not None and start <= header.base_offset < end:
                yield _Entry(None, ProducerId(header.producer_id), marker.is_commit)
            continue
        producer_id = ProducerId(header.producer_id if header.is_transactional else NO_PRODUCER_ID)
        try:
            for record in raw_records(data[at : at + header.size], header):
                if start <= record.offset < end:
                    yield _Entry(record, producer_id)
        except WireError as error:
            raise CannotLoad(str(error)) from error


def _replay(context: ShardContext, partition: Partition, state: LoggedState, entry: _Entry) -> bool:
    """Replays one record or marker; True if its type and version are known."""
    record, producer_id = entry.record, entry.producer_id
    if record is None:
        if isinstance(state, TransactionalState):
            state.replay_marker(producer_id, is_commit=entry.is_commit)
        return True
    if record.key is None:
        return False
    try:
        found = state.decode(record.key, record.value)
    except MalformedRecord as error:
        place = RecordPlace(partition.log.partition, record.offset)
        if place not in context.loads.skipped_records:
            raise CannotLoad(
                f"the record at offset {record.offset} does not parse: {error}; start every broker"
                f" with {context.loads.skip_key}={place} to go on without it"
            ) from error
        context.runtime.log.warning(
            "a record is skipped, as the configuration asks",
            partition=partition.name,
            offset=record.offset,
            why=str(error),
        )
        return True
    if found is None:
        return False
    if producer_id == NO_PRODUCER_ID or not isinstance(state, TransactionalState):
        state.replay(Offset(record.offset), found)
    else:
        state.replay_transactional(Offset(record.offset), found, producer_id)
    return True
