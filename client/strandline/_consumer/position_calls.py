"""The calls of a consumer that concern its positions in what is assigned to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline._consumer.base import ConsumerBase
from strandline._core.position import EARLIEST, LATEST, Phase
from strandline._net import arguments as given
from strandline.errors import OperationTimedOut, describe

if TYPE_CHECKING:
    from strandline._core.position import Position
    from strandline.types import TopicPartition


class PositionCalls(ConsumerBase):
    def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int, leader_epoch: int = -1
    ) -> None:
        """Read from `offset` on.

        With the leader epoch of the record before it (a record's `leader_epoch`, or what was kept
        beside a saved offset), a log that has lost that record is detected.
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

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read from the first record that is there; of all assigned partitions if none is named."""
        await self._reset(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read only what is committed from now on."""
        await self._reset(partitions, LATEST)

    async def _reset(self, partitions: tuple[TopicPartition, ...], to: int) -> None:
        self._started()
        positions = self._assigned.of(partitions)
        for position in positions:
            position.reset(to)
            self._moved(position)
        for position in positions:
            await self._resolved(position.partition)

    async def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """The offset of the next record that the caller gets."""
        return await self._resolved(partition)

    async def _resolved(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Wait until an offset that is being looked up is known, while the partition is assigned:
        nobody looks for another's.
        """
        fetcher = self._started()
        deadline = asyncio.get_running_loop().time() + self._request_timeout_s
        while (position := self._assigned.position(partition)).phase is Phase.RESETTING:
            if asyncio.get_running_loop().time() >= deadline:
                cause = fetcher.obstacle
                why = "" if cause is None else f": {describe(cause)}"
                raise OperationTimedOut(
                    f"the offset of {position.partition.topic}/{position.partition.partition} "
                    f"was not found within {self._request_timeout_s * 1000:.0f} ms{why}",
                    cause,
                )
            await asyncio.sleep(0.002)
            self._started()
        if position.error is not None:
            raise position.error
        return position.offset

    def position_epoch(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Leader epoch of the last record delivered, to be saved with the offset; -1 if none."""
        return self._assigned.position(partition).epoch

    def highwater(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """The high watermark that came with the last answer; None before the first."""
        mark = self._assigned.position(partition).high_watermark
        return None if mark < 0 else mark

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver nothing of these until `resume`."""
        for position in self._assigned.of(partitions):
            position.paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        fetcher = self._started()
        for position in self._assigned.of(partitions):
            position.paused = False
        fetcher.arrived.set()
        fetcher.plan()

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(p.partition for p in self._assigned.of(()) if p.paused)
