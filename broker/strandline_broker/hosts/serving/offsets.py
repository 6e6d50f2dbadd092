"""ListOffsets and OffsetsForLeaderEpoch: the ends of a log, and the offsets of a time or an
epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.replicas import replica_of
from strandline_proto.errors import InvalidRequest

if TYPE_CHECKING:
    from strandline_broker.core.replication.isolation import Isolation
    from strandline_broker.hosts.member.replica_manager import ReplicaManager

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
"""The start of the local part of a log: its start, as no part is elsewhere."""
LATEST_TIERED: Final = -5
"""The end of the part in a tiered storage: none."""
EARLIEST_PENDING_UPLOAD: Final = -6
"""The first offset that waits for a tiered storage: none."""
NOT_FOUND: Final = -1


class FoundOffset(NamedTuple):
    timestamp: int
    """Milliseconds; -1 for an end of the log, and if no record has such a time."""
    offset: int
    leader_epoch: int


class OffsetsService:
    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    async def find(
        self,
        key: tuple[bytes, int],
        timestamp: int,
        *,
        current_leader_epoch: int | None,
        isolation: Isolation,
    ) -> FoundOffset:
        """Returns an end of the log, or the first record at or after a time. Raises WireError.

        The ends need no wait; a time is looked up in the disk's thread.
        """
        partition = replica_of(self._replicas, *key)
        leading = check_leader(partition, current_leader_epoch)
        epoch = leading.machine.leader_epoch
        if timestamp == LATEST:
            return FoundOffset(NOT_FOUND, leading.committed_end(isolation), epoch)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return FoundOffset(NOT_FOUND, NOT_FOUND, NOT_FOUND)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return FoundOffset(NOT_FOUND, partition.log.log_start_offset, epoch)
        if timestamp != MAX_TIMESTAMP and timestamp < 0:
            raise InvalidRequest(
                f"timestamp {timestamp} is neither milliseconds nor -1 (latest),"
                " -2 (earliest), -3 (largest timestamp), -4 (earliest local), -5 and -6 (tiered)"
            )
        end = leading.committed_end(isolation)
        log = partition.log
        wanted = None if timestamp == MAX_TIMESTAMP else timestamp
        try:
            found = await self._replicas.dirs.in_turns(log, log.time_lookup(wanted))
        except OSError as error:
            check_leader(partition, epoch)  # a later role may take files away
            raise partition.refuse_read(error) from error
        check_leader(partition, epoch)
        if found is None or found[1] >= end:
            return FoundOffset(NOT_FOUND, NOT_FOUND, NOT_FOUND)
        return FoundOffset(*found)

    def end_of_epoch(
        self, key: tuple[bytes, int], leader_epoch: int, *, current_leader_epoch: int | None
    ) -> tuple[int, int]:
        """Returns (epoch, end offset) of the largest epoch at or below the requested one.

        Only the leader answers, in the epoch that the caller expects (I-38). Raises WireError.
        """
        partition = replica_of(self._replicas, *key)
        check_leader(partition, current_leader_epoch)
        log = partition.log
        return log.leader_epochs.end_offset_for(leader_epoch, log.log_end_offset)
