"""DescribeCluster: the brokers of one listener, fenced ones on request, and the controller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.kafka.cluster.describe_cluster import DescribeClusterCalls
from strandline_proto.ids import BrokerId
from support.envelopes import applied, envelope, live_broker
from support.kafka_answers import ask


def calls() -> DescribeClusterCalls:
    cache = MetadataCache(cluster_id="cluster")
    brokers = (live_broker(1, fenced=True), replace(live_broker(2), rack="r2"), live_broker(3))
    applied(cache, envelope(5, full=True, live_brokers=brokers))
    return DescribeClusterCalls(cache, me=BrokerId(3), listener="PLAINTEXT")


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described_in_each_version(version: int) -> None:
    answer = await ask(calls(), "DescribeCluster", version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 3)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (2, "client.example", 9002, "r2"),
        (3, "client.example", 9003, None),
    ]
    assert answer.authorized_operations is None
    if version >= 1:
        assert answer.endpoint_type == 1
    asked = {"include_cluster_authorized_operations": True}
    found = (await ask(calls(), "DescribeCluster", version, **asked)).authorized_operations
    assert sum(1 << each for each in found) == 8096


async def test_fenced_brokers_are_described_on_request() -> None:
    answer = await ask(calls(), "DescribeCluster", 2, include_fenced_brokers=True)
    assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [
        (1, True),
        (2, False),
        (3, False),
    ]


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (0, 115), (3, 115)])
@pytest.mark.parametrize("version", [1, 2])
async def test_controllers_are_not_described_here(
    version: int, endpoint_type: Any, code: int
) -> None:
    answer = await ask(calls(), "DescribeCluster", version, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.brokers) == (code, [])
    assert answer.error_message
