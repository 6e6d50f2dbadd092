"""The committed offsets of groups and their lag, under the names of the Kafka exporter.

The coordinator of a group knows its offsets. It knows the ends of the partitions that its own
broker leads, and a scrape asks the other leaders for theirs. A leader that does not answer in time
costs the lag of its partitions in that scrape: the samples are absent, not wrong.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import grpc

from strandline_broker.hosts.replica.leading import Leading
from strandline_proto.ids import NO_LEADER, BrokerId, TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.member.replica_manager import ReplicaManager

Key = tuple[TopicId, int]

ASK_TIMEOUT_S: Final = 2.0
GROUP: Final = ("consumergroup",)
GROUP_TOPIC: Final = ("consumergroup", "topic")
GROUP_PARTITION: Final = ("consumergroup", "topic", "partition")


class Committed(NamedTuple):
    """One committed offset of a group."""

    group_id: str
    topic: str
    partition: int
    offset: int


class GroupsOfShard(Protocol):
    """The part of a shard that the lag needs."""

    def committed(self) -> Iterator[tuple[str, str, TopicId | None, int, int]]:
        """Yields group, topic, topic id, partition and offset of what is committed."""
        ...

    def members_by_group(self) -> Iterator[tuple[str, int]]: ...


class AskEnds(Protocol):
    async def __call__(
        self, leader: Endpoint, keys: Iterable[Key], *, timeout_s: float
    ) -> dict[Key, int]:
        """Returns the high watermarks that the leader's broker knows."""
        ...


class GroupLag:
    """A collector of the offsets and lags of the groups that this broker coordinates."""

    def __init__(
        self,
        shards: Callable[[], Iterable[GroupsOfShard]],
        replicas: ReplicaManager,
        metadata: MetadataCache,
        ask: AskEnds,
    ) -> None:
        self._shards = shards
        self._replicas = replicas
        self._metadata = metadata
        self._ask = ask
        self._ends_elsewhere: Mapping[Key, int] = {}

    async def before_scrape(self) -> None:
        """Asks the leaders elsewhere for the ends of the partitions with committed offsets."""
        wanted: dict[BrokerId, set[Key]] = {}
        for key, _ in self._offsets():
            known = self._metadata.view.partition(*key)
            if known is not None and known.leader not in (NO_LEADER, self._replicas.me):
                wanted.setdefault(known.leader, set()).add(key)
        answers = await asyncio.gather(*(self._ends_of(*each) for each in wanted.items()))
        self._ends_elsewhere = {key: end for answer in answers for key, end in answer.items()}

    async def _ends_of(self, leader: BrokerId, keys: set[Key]) -> dict[Key, int]:
        listener = self._replicas.config.current.inter_broker_listener_name
        endpoint = self._metadata.view.endpoint(leader, listener)
        if endpoint is None:
            return {}
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                return await self._ask(endpoint, sorted(keys), timeout_s=ASK_TIMEOUT_S)
        except (grpc.RpcError, TimeoutError, asyncio.InvalidStateError):
            return {}

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        members = GaugeMetricFamily(
            "kafka_consumergroup_members",
            "Members of the group; shown by its coordinator.",
            labels=GROUP,
        )
        for shard in self._shards():
            for group_id, count in shard.members_by_group():
                members.add_metric([group_id], count)
        yield members
        offsets = [(each, self._end(key)) for key, each in self._offsets()]
        if self._replicas.config.current.metrics_replicas_enable:
            yield from _of_partitions(offsets)
        yield from _of_topics(offsets)

    def _offsets(self) -> Iterator[tuple[Key, Committed]]:
        """Yields the offsets of topics that exist."""
        view = self._metadata.view
        for shard in self._shards():
            for group_id, name, topic_id, index, offset in shard.committed():
                topic = view.topic_named(name)
                if topic is None or topic_id not in (None, topic.topic_id):
                    continue
                if index in topic.partitions:
                    yield (topic.topic_id, index), Committed(group_id, name, index, offset)

    def _end(self, key: Key) -> int | None:
        partition = self._replicas.partitions.get(key)
        if partition is not None and isinstance(partition.role, Leading):
            return partition.high_watermark
        return self._ends_elsewhere.get(key)


Offsets = list[tuple[Committed, int | None]]


def _of_partitions(offsets: Offsets) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    current = GaugeMetricFamily(
        "kafka_consumergroup_current_offset",
        "Offset that the group has committed; shown by its coordinator.",
        labels=GROUP_PARTITION,
    )
    lag = GaugeMetricFamily(
        "kafka_consumergroup_lag",
        "Committed records from the group's offset on; shown by its coordinator.",
        labels=GROUP_PARTITION,
    )
    for each, end in offsets:
        labels = (each.group_id, each.topic, str(each.partition))
        current.add_metric(labels, each.offset)
        if end is not None:
            lag.add_metric(labels, max(0, end - each.offset))
    yield current
    yield lag


def _of_topics(offsets: Offsets) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    current = GaugeMetricFamily(
        "kafka_consumergroup_current_offset_sum",
        "Sum of the group's offsets in all partitions of the topic.",
        labels=GROUP_TOPIC,
    )
    lag = GaugeMetricFamily(
        "kafka_consumergroup_lag_sum",
        "Sum of the group's lags in the topic; absent while the lag of a partition is unknown.",
        labels=GROUP_TOPIC,
    )
    sums: dict[tuple[str, str], int] = {}
    lags: dict[tuple[str, str], int | None] = {}
    for each, end in offsets:
        key = (each.group_id, each.topic)
        sums[key] = sums.get(key, 0) + each.offset
        so_far = lags.get(key, 0)
        behind = None if end is None else max(0, end - each.offset)
        lags[key] = None if so_far is None or behind is None else so_far + behind
    for key, total in sums.items():
        current.add_metric(key, total)
        if (total_lag := lags[key]) is not None:
            lag.add_metric(key, total_lag)
    yield current
    yield lag
