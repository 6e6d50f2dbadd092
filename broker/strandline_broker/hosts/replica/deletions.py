"""DeleteRecords at the leader of one partition (I-75).

The log start rises at once, so no client reads below it any more. The call is answered when the log
start is durable here and every live member of the ISR has reported it: then no election restores
the records.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_proto.errors import NotLeaderOrFollower, OffsetOutOfRange, PolicyViolation

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.leading import Leading
    from strandline_broker.hosts.replica.observers import LogStartObserver
    from strandline_broker.hosts.replica.partition import Partition

TO_HIGH_WATERMARK: Final = -1


class Deletions:
    __slots__ = ("_leading", "_partition", "_retention", "_waiting", "offsets")

    def __init__(self, partition: Partition, leading: Leading, retention: LogStartObserver) -> None:
        self._partition = partition
        self._leading = leading
        self._retention = retention
        self._waiting: list[asyncio.Future[None]] = []
        self.offsets: list[int] = []
        """The offsets below which the calls under way delete records."""

    def on_news(self) -> None:
        """Check the waiting calls after news of a follower or of the ISR, or a change of role."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def delete_before(self, offset: int) -> int:
        """Delete the records below `offset` (-1: all that are committed); returns the low
        watermark.

        The call has no time limit of its own. The caller may give up at any time, and the records
        are deleted nevertheless. Raises WireError.
        """
        partition, leading = self._partition, self._leading
        end = leading.committed_end()
        to = end if offset == TO_HIGH_WATERMARK else offset
        if "delete" not in partition.log.config.cleanup_policy:
            raise PolicyViolation(
                f"{partition.name}: records of a topic with cleanup.policy=compact cannot be"
                f" deleted by offset; write tombstones, or add delete to the policy"
            )
        if not 0 <= to <= end:
            raise OffsetOutOfRange(
                f"{partition.name}: offset {offset} is not between 0 and the high watermark {end};"
                f" records can be deleted up to there (-1 means all of them)"
            )
        partition.raise_log_start(to)
        self.offsets.append(to)
        try:
            return await self._until_deleted(to)
        finally:
            self.offsets.remove(to)

    async def _until_deleted(self, to: int) -> int:
        partition, leading = self._partition, self._leading
        await self._retention.until_durable(partition)
        while True:
            if partition.role is not leading:
                raise NotLeaderOrFollower(
                    f"{partition.name}: the leadership ended meanwhile; the records below {to} may"
                    f" or may not be deleted: try again"
                )
            # Another deletion may have raised the log start since, and is not durable here yet.
            low_watermark = min(leading.machine.low_watermark(), partition.log.state.durable_start)
            if low_watermark >= to:
                return low_watermark
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
