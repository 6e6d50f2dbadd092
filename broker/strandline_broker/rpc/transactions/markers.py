"""WriteTxnMarkers of coordinators, on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.rpc.transactions.codec import marker_from_wire, results_to_wire
from strandline_proto.v1 import transactions_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.serving.producers.markers import MarkersService


class MarkersRpc:
    def __init__(self, markers: MarkersService) -> None:
        self._markers = markers

    async def WriteTxnMarkers(
        self, request: transactions_pb2.WriteTxnMarkersRequest, context: Any
    ) -> transactions_pb2.WriteTxnMarkersResponse:
        results = await self._markers.write([marker_from_wire(each) for each in request.markers])
        response = transactions_pb2.WriteTxnMarkersResponse()
        for asked, errors in zip(request.markers, results, strict=True):
            response.markers.add(
                producer_id=asked.producer_id, topics=results_to_wire(asked.topics, errors)
            )
        return response
