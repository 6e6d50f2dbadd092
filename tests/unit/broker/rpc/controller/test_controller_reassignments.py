"""Which of the reassignments under way an administrator is told of."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline_broker.core.controller.partitions.reassignment import Wish, decide_reassignments
from strandline_broker.rpc.controller.reassignments import ReassignmentsRpc
from strandline_proto.errors import NONE, UnknownTopicOrPartition
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import reassignment_pb2
from support.controller_cluster import B1, B2, B3, Cluster

B4 = BrokerId(4)


def listed(*topics: tuple[str, list[int]]) -> reassignment_pb2.ListPartitionReassignmentsResponse:
    cluster = Cluster([B1, B2, B3, B4])
    for name in ("t", "u"):
        cluster.topic(name, *([(B1, B2, B3)] * 3))
        wishes = [Wish(name, index, (B2, B3, B4)) for index in range(2)]
        cluster.commit(decide_reassignments(cluster.state, wishes))
    controller = SimpleNamespace(state=cluster.state, administration=None)
    request = reassignment_pb2.ListPartitionReassignmentsRequest()
    for name, partitions in topics:
        request.topics.add(name=name, partitions=partitions)
    rpc = ReassignmentsRpc(cast("Any", controller))
    return asyncio.run(rpc.ListPartitionReassignments(request, None))


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([], {"t": [0, 1], "u": [0, 1]}),
        ([("t", [])], {"t": [0, 1]}),
        ([("t", [1, 2])], {"t": [1]}),
        ([("t", [0]), ("t", [1])], {"t": [0, 1]}),
        ([("t", []), ("t", [1])], {"t": [0, 1]}),
        ([("t", [1]), ("t", [])], {"t": [0, 1]}),
        ([("u", [2])], {}),
    ],
)
def test_what_is_named_is_listed(
    topics: list[tuple[str, list[int]]], expected: dict[str, list[int]]
) -> None:
    response = listed(*topics)
    assert response.error_code == NONE
    found = {t.name: [p.partition_index for p in t.partitions] for t in response.topics}
    assert found == expected


def test_an_unknown_topic_is_refused() -> None:
    assert listed(("t", []), ("nowhere", [])).error_code == UnknownTopicOrPartition.code
