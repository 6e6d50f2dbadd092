"""InitProducerId: an id and epoch for an idempotent producer, within the request's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_broker.hosts.member.producer_ids import ProducerIds
    from strandline_proto.ids import ProducerEpoch, ProducerId

TIMEOUT_S_DEFAULT: Final = 10.0
TIMEOUT_S_MAX: Final = 60.0


async def init_producer_id(
    ids: ProducerIds,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    *,
    timeout_ms: int,
) -> tuple[ProducerId, ProducerEpoch]:
    """Returns a new id, or the next epoch of `producer_id`. Raises WireError."""
    timeout_s = min(timeout_ms / 1000, TIMEOUT_S_MAX)
    return await ids.init(
        producer_id, epoch, timeout_s=timeout_s if timeout_s > 0 else TIMEOUT_S_DEFAULT
    )
