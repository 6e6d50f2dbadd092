"""The records of one decision as one batch, and about whom they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.records import codec
from strandline_proto.batch import build_batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.coordination.decision import Entity, Record


def batch_of(records: Iterable[Record], wall_ms: int) -> bytes:
    return build_batch(map(_encoded, records), timestamp_ms=wall_ms)


def entities_of(records: Iterable[Record]) -> set[Entity]:
    """Groups, and members by group and member id."""
    found: set[Entity] = set()
    for record in records:
        group: str = record.key.group
        found.add(group)
        member_id: str | None = getattr(record.key, "member_id", None)
        if member_id is not None:
            found.add((group, member_id))
    return found


def _encoded(record: Record) -> tuple[bytes, bytes | None]:
    key = codec.encode_key(record.key)
    return key, None if record.value is None else codec.encode_value(record.value)
