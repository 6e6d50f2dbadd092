"""InitProducerId: an id and epoch for a producer without a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.producer_ids import init_producer_id
from strandline_proto.errors import WireError
from strandline_proto.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.member.producer_ids import ProducerIds


class ProducerIdsRpc:
    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    async def InitProducerId(
        self, request: metadata_pb2.InitProducerIdRequest, context: Any
    ) -> metadata_pb2.InitProducerIdResponse:
        try:
            producer_id, epoch = await init_producer_id(
                self._producer_ids,
                ProducerId(request.producer_id),
                ProducerEpoch(request.producer_epoch),
                timeout_ms=request.timeout_ms,
            )
        except WireError as error:
            return metadata_pb2.InitProducerIdResponse(
                error_code=error.code,
                error_message=str(error),
                producer_id=NO_PRODUCER_ID,
                producer_epoch=-1,
            )
        return metadata_pb2.InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
