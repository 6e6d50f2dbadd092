"""A consumer's calls about the offsets of any partitions, assigned or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._core.position import EARLIEST, LATEST
from strandline._net import arguments as given
from strandline._reading.reading import Reading
from strandline.types import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline._core.cluster_view import PartitionKey


class LogOffsets(Reading):
    """The calls about any partitions."""

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """Returns the first available offset of each partition."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """Returns the offset after the last committed record of each partition."""
        return await self._ends(partitions, LATEST)

    async def _ends(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], end: int
    ) -> dict[TopicPartition, int]:
        several = given.several_partitions("partitions", partitions)
        found = await self._list(dict.fromkeys(several, end))
        return {tp: listed.offset for tp, listed in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the first record at or after each timestamp (ms); None if there is none."""
        for time_ms in timestamps.values():
            given.whole("timestamps", time_ms, 0, given.INT64_MAX)
        found = await self._list(dict(timestamps))
        return {tp: None if at.offset < 0 else at for tp, at in found.items()}

    async def _list(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        fetcher = self._started()
        keys: dict[PartitionKey, TopicPartition] = {}
        for tp in wanted:
            timeout_s = self._request_timeout_s
            view = await fetcher.cluster.topic(tp.topic, timeout_s, tp.partition)
            keys[view.topic_id, tp.partition] = tp
        found = await fetcher.offsets.listed(
            {key: wanted[tp] for key, tp in keys.items()}, self._request_timeout_s
        )
        return {
            tp: OffsetAndTimestamp(found[key].offset, found[key].timestamp, found[key].leader_epoch)
            for key, tp in keys.items()
        }
