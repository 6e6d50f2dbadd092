"""The check of a producer's records before they are appended, as in Kafka's LogValidator: every
reader can read accepted records, and no timestamp blocks retention.

- The records fill the batch exactly, and their offset deltas count from 0.
- They have keys where the topic is compacted (I-72).
- Their timestamps are within the topic's bounds, and the batch's largest is one of them.

Nothing is repaired: a batch is appended as it came, or refused. Batches that a broker or controller
makes itself (replication, healing, cleaning, the metadata log) are not checked here. Batches that a
log holds already are read as they are.

A small uncompressed batch takes microseconds and is checked in the append itself. Other batches
have no tight bound, because a few compressed bytes may hold many records. They are checked before
their turn, off the event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_proto.batch import ATTRIBUTES_AT, HEADER_SIZE, check_batch, uncompressed
from strandline_proto.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, WireError
from strandline_proto.record_walk import INT64_MAX, INT64_MIN, IS_COMPILED, Fault, walk
from strandline_runtime.milliseconds import wall_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Executor

    from structlog.typing import FilteringBoundLogger

    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.config import LogConfig
    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Buffer
    from strandline_runtime.runtime import Clock

ON_LOOP_BYTES_MAX: Final = 256 << 10 if IS_COMPILED else 4 << 10
"""Limit of an uncompressed batch that is checked on the event loop. The worst case, headers without
a byte in them, takes a millisecond.
"""
LOG_APPEND_TIME: Final = "LogAppendTime"
_COMPRESSION: Final = 0x07
_FAULTS: Final = {
    Fault.NUMBER: "has a number at byte {value} of the records that does not end or is too large",
    Fault.LENGTH: "has a length of {value} bytes, which does not fit",
    Fault.OFFSET_DELTA: "has offset delta {value}; they count from 0",
    Fault.KEY_LENGTH: "has a key of {value} bytes, which does not fit",
    Fault.VALUE_LENGTH: "has a value of {value} bytes, which does not fit",
    Fault.HEADER_COUNT: "has {value} headers, which do not fit",
    Fault.HEADER_KEY_LENGTH: "has a header's key of {value} bytes, which does not fit",
    Fault.HEADER_KEY_TEXT: "has a header's key, at byte {value} of the records, that is not UTF-8",
    Fault.HEADER_VALUE_LENGTH: "has a header's value of {value} bytes, which does not fit",
    Fault.SURPLUS: "has {value} bytes behind its last field",
    Fault.TRAILING: "is not among those that its header counts, and {value} bytes stand there",
    Fault.MISSING: "is not there, though its header counts it",
    Fault.ATTRIBUTES: "has attributes {value:#x}, of which none is defined",
}


def warn_of_slow_checks(log: FilteringBoundLogger, *, is_compiled: bool = IS_COMPILED) -> None:
    """Log a warning if the checks are not compiled; called once, at the start of a broker."""
    if not is_compiled:
        log.warning(
            "records are checked in Python, some hundred times slower than compiled",
            remedy="install a C compiler and Python's headers, then the package again",
        )


class Looked(NamedTuple):
    """The result of a batch's check before its turn."""

    header: BatchHeader
    config: LogConfig
    """The configuration of the check. With another one the batch is checked again."""
    refused: WireError | None


Ahead = dict[int, Looked | None]
"""The results by a batch's place in its request; None where the batch itself is not sound."""


class RecordChecks:
    """The checks of one broker. `thread` unpacks and checks batches that are too large for the
    event loop.
    """

    def __init__(self, clock: Clock, partitions: Mapping[Key, Partition], thread: Executor) -> None:
        self._clock = clock
        self._partitions = partitions
        self._thread = thread

    async def ahead(self, batches: Iterable[tuple[Key, Buffer]]) -> Ahead:
        """Check the batches that are too large for the event loop, one after the other, so that the
        batches of other requests have their turns in between.
        """
        found: Ahead = {}
        for place, (key, batch) in enumerate(batches):
            partition = self._partitions.get(key)
            if partition is not None and _is_too_much(partition, batch):
                found[place] = await self._look(partition, batch)
        return found

    async def _look(self, partition: Partition, batch: Buffer) -> Looked | None:
        name, config, now_ms = partition.name, partition.log.config, wall_ms(self._clock)
        look = partial(_look, name, batch, config, now_ms)
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)


def _is_too_much(partition: Partition, batch: Buffer) -> bool:
    return (
        HEADER_SIZE <= len(batch) <= partition.max_message_bytes
        and (len(batch) > ON_LOOP_BYTES_MAX or batch[ATTRIBUTES_AT + 1] & _COMPRESSION != 0)
        and partition.leader is not None
    )


def _look(partition: str, batch: Buffer, config: LogConfig, now_ms: int) -> Looked | None:
    try:
        header = check_batch(batch)
    except WireError:
        return None  # the append says so in its turn
    try:
        check_records(partition, batch, header, config, now_ms)
    except WireError as error:
        return Looked(header, config, error)
    return Looked(header, config, None)


def check_records(
    partition: str, batch: Buffer, header: BatchHeader, config: LogConfig, now_ms: int
) -> None:
    """Check the records. Raises InvalidTimestamp, InvalidRecord or RecordTooLarge at the first
    fault.

    Under LogAppendTime the leader's clock replaces the producer's timestamps.
    """
    try:
        plain = uncompressed(batch, header, config.bound)
    except CorruptMessage as error:  # under a right CRC: the same bytes never become better
        raise InvalidRecord(f"{partition}: {error}") from error
    earliest, latest = INT64_MIN, INT64_MAX
    own_times = config.message_timestamp_type != LOG_APPEND_TIME
    if own_times:
        earliest = max(now_ms - config.message_timestamp_before_max_ms, INT64_MIN)
        latest = min(now_ms + config.message_timestamp_after_max_ms, INT64_MAX)
    fault, index, value, found = walk(
        plain,
        HEADER_SIZE,
        header.record_count,
        header.base_timestamp,
        earliest,
        latest,
        "compact" in config.cleanup_policy,
    )
    if fault != Fault.SOUND:
        refused = _refused(partition, Fault(fault), index, value, header, config, now_ms)
        refused.record_index = index
        raise refused
    if own_times and header.max_timestamp != found:
        raise InvalidTimestamp(
            f"{partition}: the batch's maximum timestamp is {header.max_timestamp}, the latest of"
            f" its {header.record_count} records' {found}"
        )


def _refused(
    partition: str,
    fault: Fault,
    index: int,
    value: int,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
) -> WireError:
    """Returns the error for the record at `index` of the batch."""
    if fault == Fault.TIMESTAMP:
        return _refused_time(f"{partition}: record {index} of the batch", value, config, now_ms)
    if fault == Fault.TIMESTAMP_DELTA:
        return InvalidTimestamp(
            f"{partition}: record {index} of the batch has timestamp delta {value} to"
            f" {header.base_timestamp}, which no time has"
        )
    if fault == Fault.NO_KEY:
        return InvalidRecord(
            f"{partition} is compacted (cleanup.policy), which needs a key in every record; record"
            f" {index} of the batch has none: give it a key, or set cleanup.policy=delete"
        )
    return InvalidRecord(
        f"{partition}: record {index} of the batch {_FAULTS[fault].format(value=value)}"
    )


def _refused_time(which: str, timestamp: int, config: LogConfig, now_ms: int) -> InvalidTimestamp:
    if timestamp < now_ms:
        name, allowed = "message.timestamp.before.max.ms", config.message_timestamp_before_max_ms
    else:
        name, allowed = "message.timestamp.after.max.ms", config.message_timestamp_after_max_ms
    return InvalidTimestamp(
        f"{which} has timestamp {timestamp}, further than {name}={allowed} from the leader's clock"
        f" ({now_ms}): send its right time, or raise {name}"
    )
