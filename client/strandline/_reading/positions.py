"""A consumer's calls about its positions in the assigned partitions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline._core.commit_state import CommitOffset
from strandline._core.position import EARLIEST, LATEST, Phase
from strandline._net import arguments as given
from strandline._reading.log_offsets import LogOffsets
from strandline.errors import (
    ConfigurationError,
    OperationTimedOut,
    StrandlineError,
    describe,
)
from strandline.group_types import OffsetAndMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline._core.cluster_view import PartitionKey
    from strandline._core.position import Position
    from strandline._reading.reading import Partition, ToCommit
    from strandline.types import ConsumerRecord, TopicPartition


class Taken(NamedTuple):
    """The records of one poll, as a transaction needs them."""

    offsets: ToCommit
    """Offsets to commit: of the records after them."""
    starts: dict[Position, CommitOffset]
    """Where they begin."""


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Positions(LogOffsets):
    """The calls about positions."""

    def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int, leader_epoch: int = -1
    ) -> None:
        """Moves the position of a partition to `offset`.

        `leader_epoch` is the epoch of the record before `offset`, from the record itself or saved
        with the offset. With it, the consumer detects a log that has lost that record.
        """
        given.whole("offset", offset, 0, given.INT64_MAX, hint="or use seek_to_beginning, _end")
        given.whole("leader_epoch", leader_epoch, -1)
        position = self._assigned.position(partition)
        fetcher = self._started()
        if leader_epoch >= 0:
            fetcher.cluster.view.require_epoch(*position.key, leader_epoch)
        position.seek(offset, leader_epoch)
        self._moved(position)

    def _moved(self, position: Position) -> None:
        self._delivery.forget(position.key)
        self._started().moved(position)
        if self._group is not None:
            self._group.on_sought(position)

    async def seek_to_beginning(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> None:
        """Moves these partitions (all assigned ones by default) to their first record."""
        await self._reset(partitions, EARLIEST, self._within(timeout_ms))

    async def seek_to_end(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> None:
        """Moves these partitions (all assigned ones by default) past the last committed record."""
        await self._reset(partitions, LATEST, self._within(timeout_ms))

    async def seek_to_time(
        self,
        time: int | datetime,
        *partitions: TopicPartition,
        timeout_ms: float | None = None,
    ) -> None:
        """Moves these partitions (all assigned ones by default) to their first record of this time
        or later; past the last committed record if there is none.

        `time` is in milliseconds since the epoch, or a datetime with a time zone.
        """
        time_ms = milliseconds_of(time)
        timeout_s = self._within(timeout_ms)
        chosen = [position.partition for position in self._assigned.of(partitions)]
        found = await self._list(dict.fromkeys(chosen, time_ms), timeout_s)
        late = tuple(tp for tp, at in found.items() if at.offset < 0)
        for tp, at in found.items():
            if tp in self._assigned.keys and at.offset >= 0:
                self.seek(tp, at.offset)
        if kept := tuple(tp for tp in late if tp in self._assigned.keys):
            await self._reset(kept, LATEST, timeout_s)

    async def _reset(
        self, partitions: tuple[TopicPartition, ...], to: int, timeout_s: float
    ) -> None:
        self._started()
        positions = self._assigned.of(partitions)
        for position in positions:
            position.reset(to)
            self._moved(position)
        for position in positions:
            await self._resolved(position.partition, timeout_s)

    async def lag(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the number of offsets between the position and the end of each partition (of all
        assigned ones by default).

        The leaders are asked, so that partitions count that were not fetched yet or are paused.
        """
        timeout_s = self._within(timeout_ms)
        self._started()
        chosen = [position.partition for position in self._assigned.of(partitions)]
        ends = await self._list(dict.fromkeys(chosen, LATEST), timeout_s)
        return {tp: max(0, ends[tp].offset - await self._resolved(tp, timeout_s)) for tp in chosen}

    async def position(
        self, partition: TopicPartition | tuple[str, int], *, timeout_ms: float | None = None
    ) -> int:
        """Returns the offset of the next record that the caller gets."""
        return await self._resolved(partition, self._within(timeout_ms))

    async def _resolved(self, partition: TopicPartition | tuple[str, int], timeout_s: float) -> int:
        """Waits until the lookup of an offset ends, while the partition is assigned.

        The lookup of a partition that is no longer assigned never ends.
        """
        fetcher = self._started()
        deadline = asyncio.get_running_loop().time() + timeout_s
        while (position := self._assigned.position(partition)).phase is Phase.RESETTING:
            if asyncio.get_running_loop().time() >= deadline:
                cause = fetcher.obstacle
                why = "" if cause is None else f": {describe(cause)}"
                raise OperationTimedOut(
                    f"the offset of {position.partition.topic}:{position.partition.partition} "
                    f"was not found within {timeout_s * 1000:.0f} ms{why}",
                    cause,
                )
            await asyncio.sleep(0.002)
            self._started()
        if position.error is not None:
            raise position.error
        return position.offset

    def position_epoch(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Returns the leader epoch of the last delivered record, to be saved with the offset.

        It is -1 if there is none.
        """
        return self._assigned.position(partition).epoch

    def highwater(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """Returns the high watermark of the last fetch; None before the first one."""
        mark = self._assigned.position(partition).high_watermark
        return None if mark < 0 else mark

    def last_stable_offset(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """Returns the last stable offset of the last fetch; None before the first one.

        Records of open transactions begin there at the earliest.
        """
        position = self._assigned.position(partition)
        return position.last_stable_offset if position.high_watermark >= 0 else None

    # Transactions.

    def _taken(self, found: Mapping[TopicPartition, Sequence[ConsumerRecord[Any, Any]]]) -> Taken:
        """What a poll has delivered: the offsets after it, and the way back."""
        offsets: dict[Partition, Any] = {}
        starts: dict[Position, CommitOffset] = {}
        for tp, records in found.items():
            position, first = self._assigned.position(tp), records[0].offset
            offsets[tp] = OffsetAndMetadata(position.offset, "", position.epoch)
            starts[position] = CommitOffset(first, position.epoch_before(first))
        return Taken(offsets, starts)

    def _still_has(self, taken: Taken) -> bool:
        """True if the consumer has owned the partitions without a break since it took records."""
        return all(self._owns(position) for position in taken.starts)

    def _owns(self, position: Position) -> bool:
        if self._assigned.find(position.key) is not position:
            return False
        if self._group is None or not self._group.is_subscribed:
            return True
        core = self._group.membership.reconciling
        return position.key in core.owned and position.key not in core.lost

    async def _return(self, taken: Taken) -> None:
        """Moves back to before these records, then to the committed offsets.

        Partitions that the consumer has lost stay as they are. If nothing is committed, or the
        coordinator does not answer in time, the positions before the records remain.
        """
        moved: dict[PartitionKey, tuple[Position, int]] = {}
        for position, start in taken.starts.items():
            if self._owns(position):
                self.seek(position.partition, start.offset, start.leader_epoch)
                moved[position.key] = position, position.generation
        if not moved or self._group is None:
            return
        try:
            found = await self._group.commits.fetched(list(moved), self._request_timeout_s)
        except StrandlineError as error:
            self._started()
            assert self._session is not None
            self._session.runtime.log.warning(
                "a consumer reads on from where its aborted transaction began: its group's "
                "committed offsets did not come",
                error=describe(error),
            )
            return
        for key, at in found.items():
            position, generation = moved[key]
            begun = position.offset == at.offset or at.offset < 0
            if not begun and position.generation == generation and self._owns(position):
                self.seek(position.partition, at.offset, at.leader_epoch)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops delivery from these partitions until `resume`."""
        for position in self._assigned.of(partitions):
            position.paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Resumes delivery from these paused partitions."""
        fetcher = self._started()
        for position in self._assigned.of(partitions):
            position.paused = False
        fetcher.arrived.set()
        fetcher.plan()

    def paused(self) -> frozenset[TopicPartition]:
        """Returns the paused partitions."""
        return frozenset(p.partition for p in self._assigned.of(()) if p.paused)


def milliseconds_of(time: object) -> int:
    """Milliseconds since the epoch. Raises ConfigurationError."""
    if not isinstance(time, datetime):
        hint = "it counts milliseconds since 1970"
        return given.whole("time", time, 0, given.TIMESTAMP_MS_MAX, hint=hint)
    if time.tzinfo is None:
        raise ConfigurationError(f"time={time!r} has no time zone; write datetime(..., tzinfo=UTC)")
    since = -((EPOCH - time) // timedelta(milliseconds=1))  # upward: not before the time
    return given.whole("time", since, 0, given.TIMESTAMP_MS_MAX)
