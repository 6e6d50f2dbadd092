"""The offsets and lags of groups, as a scrape of their coordinator shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from prometheus_client import CollectorRegistry

from strandline_broker.hosts.reporting.group_lag import GroupLag
from support.group_broker import ORDERS, ORDERS_ID, answered, group_broker

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.hosts.reporting.group_lag import Key
    from support.group_broker import GroupBroker


class Leaders:
    """The other brokers: the ends that they know, or None if they do not answer."""

    def __init__(self, ends: dict[Key, int] | None) -> None:
        self.ends = ends
        self.asked: list[list[Key]] = []

    async def __call__(
        self, leader: Endpoint, keys: Iterable[Key], *, timeout_s: float
    ) -> dict[Key, int]:
        self.asked.append(list(keys))
        if self.ends is None:
            raise grpc.RpcError
        return {key: self.ends[key] for key in keys if key in self.ends}


class Shown:
    def __init__(self, b: GroupBroker, leaders: Leaders) -> None:
        self.registry = CollectorRegistry()
        self.lag = GroupLag(b.shards.applications, b.replicas, b.metadata, leaders)
        self.registry.register(self.lag)

    async def scrape(self) -> None:
        await self.lag.before_scrape()

    def members(self) -> float | None:
        return self.registry.get_sample_value("kafka_consumergroup_members", {"consumergroup": "g"})

    def of(self, name: str, partition: int | None = None) -> float | None:
        labels = {"consumergroup": "g", "topic": ORDERS}
        if partition is not None:
            labels["partition"] = str(partition)
        return self.registry.get_sample_value(f"kafka_consumergroup_{name}", labels)


async def test_the_lag_is_the_distance_to_the_end_that_the_leader_knows(tmp_path: Path) -> None:
    leaders = Leaders({(ORDERS_ID, 0): 12, (ORDERS_ID, 1): 3})
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.lead_orders(2)
        shown = Shown(b, leaders)
        await answered(b.commit(5))
        await answered(b.commit(4, partition=1))
        await shown.scrape()
        assert leaders.asked == [[(ORDERS_ID, 0), (ORDERS_ID, 1)]]
        assert shown.of("current_offset", 0) == 5
        assert shown.of("lag", 0) == 7
        assert shown.of("lag", 1) == 0, "the group read on after the answer"
        assert (shown.of("current_offset_sum"), shown.of("lag_sum")) == (9, 7)
        assert shown.members() == 0
        await answered(b.beat("m1"))
        assert shown.members() == 1


async def test_a_leader_that_does_not_answer_costs_the_lag_alone(tmp_path: Path) -> None:
    leaders = Leaders({(ORDERS_ID, 0): 12})
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.lead_orders(2)
        shown = Shown(b, leaders)
        await answered(b.commit(5))
        await answered(b.commit(4, partition=1))
        await shown.scrape()
        assert (shown.of("lag", 0), shown.of("lag", 1)) == (7, None)
        assert shown.of("lag_sum") is None, "a sum without a part would be too low"
        leaders.ends = None
        await shown.scrape()
        assert (shown.of("lag", 0), shown.of("current_offset", 0)) == (None, 5)
        assert shown.of("current_offset_sum") == 9


async def test_the_switch_leaves_the_sums(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.lead_orders(2)
        shown = Shown(b, Leaders({(ORDERS_ID, 0): 12}))
        await answered(b.commit(5))
        await shown.scrape()
        b.replicas.config.alter({"metrics.replicas.enable": "false"})
        assert (shown.of("lag", 0), shown.of("current_offset", 0)) == (None, None)
        assert (shown.of("lag_sum"), shown.of("current_offset_sum")) == (7, 5)


async def test_a_topic_that_was_deleted_and_a_shard_that_is_not_led_show_nothing(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.lead_orders(2)
        shown = Shown(b, Leaders({(ORDERS_ID, 0): 12}))
        await answered(b.commit(5))
        await b.follow(2)
        await shown.scrape()
        assert shown.of("current_offset", 0) is None
        await b.lead(3, isr=(1,))
        await b.set_topics({})
        await shown.scrape()
        assert shown.of("current_offset_sum") is None
