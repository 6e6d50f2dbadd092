"""InitProducerId: an id and epoch for an idempotent producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proto.errors import UnsupportedVersion, WireError
from strandline_proto.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.producer_ids import ProducerIds

TIMEOUT_S_DEFAULT: Final = 10.0
TIMEOUT_S_MAX: Final = 60.0


class ProducerIdsRpc:
    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    async def InitProducerId(
        self, request: metadata_pb2.InitProducerIdRequest, context: Any
    ) -> metadata_pb2.InitProducerIdResponse:
        timeout_s = min(request.timeout_ms / 1000, TIMEOUT_S_MAX)
        try:
            if request.HasField("transactional_id"):
                raise UnsupportedVersion(
                    "transactions are not supported yet; unset transactional.id"
                )
            producer_id, epoch = await self._producer_ids.init(
                ProducerId(request.producer_id),
                ProducerEpoch(request.producer_epoch),
                timeout_s=timeout_s if timeout_s > 0 else TIMEOUT_S_DEFAULT,
            )
        except WireError as error:
            return metadata_pb2.InitProducerIdResponse(
                error_code=error.code,
                error_message=str(error),
                producer_id=NO_PRODUCER_ID,
                producer_epoch=-1,
            )
        return metadata_pb2.InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
