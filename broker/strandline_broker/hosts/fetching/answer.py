"""The answer to one fetch request as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.hosts.common.fetch_messages import FetchedPartition, Offsets
from strandline_broker.hosts.replica.leading import Leading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.metadata_cache import CurrentLeader
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.errors import WireError


_COMMITTED: Final = Isolation.READ_COMMITTED
"""Python 3.11 takes as long for an enumeration's member as for a call."""


def offsets_of(partition: Partition) -> Offsets:
    """Returns the offsets that an answer reports of the partition's log, whatever this replica's
    role is.
    """
    role, high_watermark = partition.role, partition.high_watermark
    stable = role.readable_end(_COMMITTED) if isinstance(role, Leading) else high_watermark
    return Offsets(high_watermark, stable, partition.log.log_start_offset)


def is_cold(start: int, partition: Partition) -> bool:
    """True if the bytes from that offset have to be read from the disk."""
    log = partition.log
    return isinstance(partition.role, Leading) and (
        log.log_start_offset <= start < log.log_end_offset and not log.is_hot(start)
    )


class Collected:
    """The answer's new content, as far as it fits; an `urgent` one is sent at once, however small
    it is.
    """

    def __init__(self, max_bytes: int, keys: Iterable[Key] = ()) -> None:
        self.left = iter(keys)
        """The partitions still to check."""
        self.size = 0
        self.urgent = False
        self.errors: list[int] = []
        """The codes of the refused partitions."""
        self.partitions: dict[Key, FetchedPartition] = {}
        self._max_bytes = max_bytes

    @property
    def room(self) -> int:
        return self._max_bytes - self.size

    def limit_for(self, partition_max_bytes: int) -> int:
        return max(1, min(partition_max_bytes, self.room))

    def has(self, key: Key) -> bool:
        return key in self.partitions

    def result(self, key: Key, partition: Partition) -> FetchedPartition:
        result = self.partitions[key] = FetchedPartition(offsets_of(partition))
        return result

    def refuse(
        self,
        key: Key,
        error: WireError,
        leader: CurrentLeader | None,
        partition: Partition | None,
    ) -> None:
        # A reader that is out of range needs the range to decide what to do (I-45).
        if partition is None:
            result = self.partitions[key] = FetchedPartition(holds_replica=False)
        else:
            result = self.result(key, partition)
        result.error, result.leader = error, leader
        self.errors.append(error.code)
        self.urgent = True
