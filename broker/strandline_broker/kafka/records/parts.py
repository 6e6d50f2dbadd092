"""The parts of the calls that carry records and offsets; Produce is a part of its own,
`produce.ProduceCalls`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.kafka.records.delete_records import DeleteRecordsCalls
from strandline_broker.kafka.records.fetch import FetchCalls
from strandline_broker.kafka.records.offsets import OffsetsCalls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.kafka.services import Services


def record_parts(services: Services, listener: str) -> Iterable[Any]:
    yield FetchCalls(services, listener)
    yield OffsetsCalls(services)
    yield DeleteRecordsCalls(services)
