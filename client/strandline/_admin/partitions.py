"""More partitions on the wire: what is asked for, and what the answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._admin.descriptions import check
from strandline._net.arguments import mapping
from strandline.errors import BrokerUnreachable
from strandline.types import NewPartitions
from strandline_proto.v1 import partitions_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping


def more_partitions(
    wanted: Mapping[str, NewPartitions | int], *, timeout_s: float, validate_only: bool
) -> partitions_pb2.CreatePartitionsRequest:
    request = partitions_pb2.CreatePartitionsRequest(
        timeout_ms=int(timeout_s * 1000), validate_only=validate_only
    )
    for name, given in mapping("wanted", wanted).items():
        new = NewPartitions(given) if isinstance(given, int) else given
        topic = request.topics.add(name=name, count=new.total_count)
        for brokers in new.new_assignments or ():
            topic.assignments.add(broker_ids=list(brokers))
    return request


def partitions_before(
    request: partitions_pb2.CreatePartitionsRequest,
    answer: partitions_pb2.CreatePartitionsResponse,
) -> dict[str, int]:
    """How many each topic had. Raises the first error of the answer."""
    check(answer)
    found = {}
    for result in answer.results:
        check(result)
        found[result.name] = result.partitions_before
    for topic in request.topics:
        if topic.name not in found:
            raise BrokerUnreachable(f"the answer says nothing about topic {topic.name!r}")
    return found
