"""The metrics of a broker as a coordinator of groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from strandline_broker.core.groups.records.consumer_records import ConsumerGroupMetadataKey
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence, Sized

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

    from strandline_broker.core.coordination.decision import Record


class Counted(Protocol):
    """The part of a shard that the gauges need."""

    @property
    def sessions(self) -> Sized: ...
    def shard_state(self) -> str: ...
    def states(self) -> list[str]: ...
    def members(self) -> int: ...


class GroupMetrics:
    def __init__(
        self, registry: CollectorRegistry, shards: Callable[[], Collection[Counted]]
    ) -> None:
        from prometheus_client import Counter as Total
        from prometheus_client import Histogram

        self._shards = shards
        self._commits = Total(
            "strandline_group_offset_commits",
            "Offsets of partitions that were written for groups.",
            registry=registry,
        )
        self._rebalances = Total(
            "strandline_group_rebalances",
            "Rebalances of classic groups that were begun, and group epochs of others: something"
            " about a group's members or topics changed.",
            registry=registry,
        )
        self._load_seconds = Histogram(
            "strandline_group_shard_load_seconds",
            "How long it took to read the log of a shard.",
            registry=registry,
        )
        registry.register(self)

    def on_records(self, records: Sequence[Record]) -> None:
        """Counts records that a shard has appended to its log."""
        for record in records:
            if record.value is None:
                continue
            if isinstance(record.key, OffsetCommitKey):
                self._commits.inc()
            elif isinstance(record.key, ConsumerGroupMetadataKey):
                self._rebalances.inc()

    def rebalances(self) -> None:
        """Counts a rebalance of a classic group."""
        self._rebalances.inc()

    def loaded(self, took_s: float) -> None:
        self._load_seconds.observe(took_s)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields the gauges, at each scrape of the registry."""
        from prometheus_client.core import GaugeMetricFamily

        states: Counter[str] = Counter()
        shards: Counter[str] = Counter()
        members = streams = 0
        for host in self._shards():
            shards[host.shard_state()] += 1
            states.update(host.states())
            members += host.members()
            streams += len(host.sessions)
        by_state = GaugeMetricFamily(
            "strandline_groups", "Groups that this broker coordinates.", labels=["state"]
        )
        for state, count in sorted(states.items()):
            by_state.add_metric([state], count)
        yield by_state
        yield GaugeMetricFamily(
            "strandline_group_members", "Members of these groups.", value=members
        )
        yield GaugeMetricFamily(
            "strandline_group_streams", "Heartbeat streams that are open.", value=streams
        )
        in_state = GaugeMetricFamily(
            "strandline_group_shards", "Shards that were asked or loaded.", labels=["state"]
        )
        for state, count in sorted(shards.items()):
            in_state.add_metric([state], count)
        yield in_state
