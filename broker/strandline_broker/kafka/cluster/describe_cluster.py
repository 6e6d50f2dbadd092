"""DescribeCluster: the brokers, and the one that takes requests for the controller (KIP-700)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.serving.metadata import Reach, registered_brokers
from strandline_broker.kafka.cluster.errors import (
    MISMATCHED_ENDPOINT_TYPE,
    UNSUPPORTED_ENDPOINT_TYPE,
)
from strandline_broker.kafka.cluster.operations import ON_CLUSTER, as_set
from strandline_broker.kafka.codec import answer_of
from strandline_proto.errors import NONE

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.kafka.request import Request
    from strandline_proto.ids import BrokerId

BROKERS: Final = 1
CONTROLLERS: Final = 2
NAMES_FENCED: Final = 2
"""First version that can ask for fenced brokers."""


class DescribeClusterCalls:
    def __init__(self, metadata: MetadataCache, *, me: BrokerId, listener: str) -> None:
        self._metadata = metadata
        self._me = me
        self._listener = listener

    async def DescribeCluster(self, request: Request, message: Any) -> Any:
        answer = answer_of("DescribeCluster")
        if message.endpoint_type == CONTROLLERS:
            return answer(
                error_code=MISMATCHED_ENDPOINT_TYPE,
                error_message="this is a broker; the controller serves no Kafka clients",
                endpoint_type=BROKERS,
                cluster_id="",
                brokers=[],
            )
        if message.endpoint_type != BROKERS:
            return answer(
                error_code=UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"endpoint type {message.endpoint_type} is not known; 1 is brokers",
                endpoint_type=BROKERS,
                cluster_id="",
                brokers=[],
            )
        view = self._metadata.view
        shows_fenced = request.version >= NAMES_FENCED and message.include_fenced_brokers
        asked = message.include_cluster_authorized_operations
        return answer(
            error_code=NONE,
            error_message=None,
            endpoint_type=BROKERS,
            cluster_id=self._metadata.cluster_id,
            controller_id=Reach(view, self._listener).any_broker(self._me),
            brokers=[
                answer.DescribeClusterBroker(
                    broker_id=node.broker_id,
                    host=node.host,
                    port=node.port,
                    rack=node.rack or None,
                    is_fenced=is_fenced,
                )
                for node, is_fenced in registered_brokers(view, self._listener)
                if shows_fenced or not is_fenced
            ],
            authorized_operations=as_set(ON_CLUSTER) if asked else None,
        )
