"""The high watermarks of partitions that another broker leads, asked for by a scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_proto.ids import TopicId
from strandline_proto.v1 import fetch_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.addresses import Endpoint
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from strandline_runtime.runtime import Network

LATEST: Final = -1
ASKED_MAX: Final = 5_000
"""Partitions in one request."""


class EndOffsets:
    def __init__(self, network: Network) -> None:
        self._network = network

    async def __call__(
        self, leader: Endpoint, keys: Iterable[tuple[TopicId, int]], *, timeout_s: float
    ) -> dict[tuple[TopicId, int], int]:
        """Returns the watermarks that the leader's broker knows. Raises grpc.RpcError."""
        host = f"[{leader.host}]" if ":" in leader.host else leader.host
        channel = self._network.channel(f"{host}:{leader.port}")
        stub: BrokerServiceAsyncStub = BrokerServiceStub(channel)
        wanted, found = list(keys), dict[tuple[TopicId, int], int]()
        try:
            for start in range(0, len(wanted), ASKED_MAX):
                request = _request(wanted[start : start + ASKED_MAX])
                response = await stub.ListOffsets(request, timeout=timeout_s)
                for topic in response.topics:
                    for each in topic.partitions:
                        if each.error_code == 0 and each.offset >= 0:
                            found[TopicId(topic.topic_id), each.partition] = each.offset
        finally:
            await channel.close()
        return found


def _request(keys: Iterable[tuple[TopicId, int]]) -> fetch_pb2.ListOffsetsRequest:
    partitions: dict[TopicId, list[int]] = {}
    for topic_id, index in keys:
        partitions.setdefault(topic_id, []).append(index)
    request = fetch_pb2.ListOffsetsRequest(replica_id=-1)
    for topic_id, indexes in partitions.items():
        topic = request.topics.add(topic_id=topic_id)
        for index in indexes:
            topic.partitions.add(partition=index, current_leader_epoch=-1, timestamp=LATEST)
    return request
