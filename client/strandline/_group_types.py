"""The values that the calls about groups take and give back."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """A committed offset: of the next record to read, with a text of the application's and the
    leader epoch of the record before it (-1: unknown).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """Who a consumer is in its group; no member id and generation -1 while it is no member."""

    group_id: str
    generation_id: int
    """The member's epoch."""
    member_id: str
    group_instance_id: str | None
