"""A consumer's calls about topics, and about the offsets of any partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._core.position import EARLIEST, LATEST
from strandline._net import arguments as given
from strandline._net.cluster import LOOK_TIMEOUT_S
from strandline._reading.reading import Reading
from strandline.types import OffsetAndTimestamp, TopicPartition
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline._core.cluster_view import PartitionKey


class LogOffsets(Reading):
    """The calls about any topics and partitions."""

    async def topics(
        self, *, include_internal: bool = False, timeout_ms: float | None = None
    ) -> frozenset[str]:
        """Returns the names of all topics; internal topics only if asked."""
        answer = await self._started().cluster.ask_any(
            lambda stub: stub.Metadata,
            metadata_pb2.MetadataRequest(),
            timeout_s=self._within(timeout_ms),
            attempt_s=LOOK_TIMEOUT_S,
            returns=metadata_pb2.MetadataResponse,
        )
        return frozenset(t.name for t in answer.topics if include_internal or not t.is_internal)

    async def partitions_for(
        self, topic: str, *, timeout_ms: float | None = None
    ) -> frozenset[int]:
        """Returns the partitions of `topic`. Raises UnknownTopicOrPartition."""
        view = await self._started().cluster.topic(topic, self._within(timeout_ms))
        return frozenset(view.partitions)

    async def partitions_for_topic(
        self, topic: str, *, timeout_ms: float | None = None
    ) -> frozenset[int]:
        """Returns the partitions of `topic`; aiokafka's name of `partitions_for`."""
        return await self.partitions_for(topic, timeout_ms=timeout_ms)

    async def beginning_offsets(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Returns the first available offset of each partition."""
        return await self._ends(partitions, EARLIEST, self._within(timeout_ms))

    async def end_offsets(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Returns the offset after the last committed record of each partition."""
        return await self._ends(partitions, LATEST, self._within(timeout_ms))

    async def _ends(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], end: int, timeout_s: float
    ) -> dict[TopicPartition, int]:
        several = given.several_partitions("partitions", partitions)
        found = await self._list(dict.fromkeys(several, end), timeout_s)
        return {tp: listed.offset for tp, listed in found.items()}

    async def offsets_for_times(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the first record at or after each timestamp (ms); None if there is none."""
        for time_ms in timestamps.values():
            given.whole("timestamps", time_ms, 0, given.INT64_MAX)
        found = await self._list(dict(timestamps), self._within(timeout_ms))
        return {tp: None if at.offset < 0 else at for tp, at in found.items()}

    async def _list(
        self, wanted: Mapping[TopicPartition, int], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        fetcher = self._started()
        keys: dict[PartitionKey, TopicPartition] = {}
        for tp in wanted:
            view = await fetcher.cluster.topic(tp.topic, timeout_s, tp.partition)
            keys[view.topic_id, tp.partition] = tp
        found = await fetcher.offsets.listed(
            {key: wanted[tp] for key, tp in keys.items()}, timeout_s
        )
        return {
            tp: OffsetAndTimestamp(found[key].offset, found[key].timestamp, found[key].leader_epoch)
            for key, tp in keys.items()
        }
