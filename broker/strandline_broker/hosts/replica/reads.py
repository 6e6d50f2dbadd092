"""Reads of one partition at its leader: followers up to the log end, consumers below the high
watermark, or below the last stable offset.

Each read is one synchronous step: role, epoch, watermark, bytes and aborted transactions are of one
moment (I-12, P-13, P-33, P-122).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.common.fetch_messages import Position
    from strandline_broker.hosts.replica.leading import Leading
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.reader import LogRead

EXPECTED: Final = (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
"""Refusals that do not count as failed requests, as in Kafka: readers meet them in good order."""


_COMMITTED: Final = Isolation.READ_COMMITTED


@dataclass(frozen=True, slots=True)
class Divergence:
    """The reader's history ends here in ours: it truncates and asks again (I-39)."""

    epoch: int
    end_offset: int


def read_for_follower(
    partition: Partition,
    at: Position,
    *,
    broker_id: int,
    broker_epoch: int,
    max_bytes: int,
    noted: Leading | None = None,
) -> LogRead | Divergence | None:
    """Read up to the log end, then note the follower's progress (P-35); None if there is nothing to
    read. `noted`: the leadership that already noted this position; only newer records are read
    then.
    """
    partition.counters.fetch_requests += 1
    leading = check_leader(partition, at.current_leader_epoch)
    log, start = partition.log, at.fetch_offset
    if leading is noted and log.log_start_offset <= start < log.log_end_offset:
        return partition.read_log(start, max_bytes=max_bytes, limit=log.log_end_offset)
    diverging = divergence(partition, at)
    if diverging is not None:
        return diverging
    if start < log.log_end_offset:
        read = partition.read_log(start, max_bytes=max_bytes, limit=log.log_end_offset)
    else:
        read = None
    leading.on_follower_fetch(at, broker_id=broker_id, broker_epoch=broker_epoch)
    return read


def read_for_consumer(
    partition: Partition,
    at: Position,
    *,
    max_bytes: int,
    isolation: Isolation,
    is_sure: Callable[[], bool],
) -> LogRead | Divergence | None:
    """Committed batches from the position on; None if there are none yet (I-95), or `max_bytes` is
    0.

    `is_sure`: no other leader was elected because this broker's session ended. While one may exist,
    no position is called out of range: the next leader's log may have it, and a consumer would
    reset its position wrongly (I-106).
    """
    partition.counters.fetch_requests += 1
    leading = check_leader(partition, at.current_leader_epoch)
    try:
        diverging = divergence(partition, at)
    except OffsetOutOfRange as error:
        if is_sure():
            raise
        raise NotLeaderOrFollower(f"{error}, but another broker may lead by now") from None
    if diverging is not None:
        return diverging
    limit = leading.readable_end(isolation)  # read once (P-33)
    if at.fetch_offset >= limit or max_bytes == 0:
        return None
    return partition.read_log(
        at.fetch_offset, max_bytes=max_bytes, limit=limit, committed=isolation == _COMMITTED
    )


def divergence(partition: Partition, at: Position) -> Divergence | None:
    """The point where the reader's history leaves ours (I-39); OffsetOutOfRange comes first."""
    log, name = partition.log, partition.name
    if at.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(
            f"{name}: offset {at.fetch_offset} is below the log start {log.log_start_offset}"
        )
    if at.last_fetched_epoch >= 0:
        epoch, end = log.leader_epochs.end_offset_for(at.last_fetched_epoch, log.log_end_offset)
        if epoch < 0 or end < 0:
            raise OffsetOutOfRange(
                f"{name}: leader epoch {at.last_fetched_epoch} is not known here"
            )
        if epoch < at.last_fetched_epoch or end < at.fetch_offset:
            return Divergence(epoch, end)
    if at.fetch_offset > log.log_end_offset:
        raise OffsetOutOfRange(
            f"{name}: offset {at.fetch_offset} is past the log end {log.log_end_offset}"
        )
    return None
