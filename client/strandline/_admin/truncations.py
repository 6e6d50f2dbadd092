"""An operator's word to the broker whose replica has refused to be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._admin.descriptions import check
from strandline.errors import BrokerUnreachable
from strandline_proto.v1 import truncations_pb2

if TYPE_CHECKING:
    from strandline._net.session import Session


async def allow_truncation(
    session: Session, partition: tuple[str, int], broker: int, offset: int, timeout_s: float
) -> None:
    """As Admin.allow_truncation says."""
    name, number = partition
    topic = await session.cluster.topic(name, timeout_s)
    await session.cluster.refresh(timeout_s)
    address = session.cluster.address_of(broker)
    if address is None:
        live = ", ".join(map(str, sorted(session.cluster.view.brokers))) or "none"
        raise BrokerUnreachable(f"broker {broker} is not among the live brokers ({live})")
    answer = await session.connections.call(
        address,
        lambda stub: stub.AllowTruncation,
        truncations_pb2.AllowTruncationRequest(
            topic_id=topic.topic_id, partition=number, offset=offset
        ),
        timeout_s=timeout_s,
        returns=truncations_pb2.AllowTruncationResponse,
    )
    check(answer)
