"""The values that calls about consumer groups take and give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from strandline.errors import StrandlineError
    from strandline.types import TopicPartition


GROUP_STATES: Final = (
    "Empty",
    "Assigning",
    "Reconciling",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Dead",
)
GROUP_TYPES: Final = ("Consumer", "Classic")


class OffsetAndMetadata(NamedTuple):
    """A committed offset: of the next record to read, with a text of the application's and the
    leader epoch of the record before it (-1: unknown; a consumer that commits adds that of what it
    has handed over).
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


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    state: str
    """`Empty`, `Assigning`, `Reconciling`, `Stable` or `Dead`."""
    type: str
    """`Consumer` or `Classic`."""
    protocol_type: str
    coordinator: int
    """The broker that answered for it."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    """Of a static member."""
    rack: str | None
    client_id: str
    host: str
    member_epoch: int
    subscribed_topics: tuple[str, ...]
    subscribed_pattern: str | None
    assignment: frozenset[TopicPartition]
    """What it may own now."""
    target_assignment: frozenset[TopicPartition]
    """What it is to own."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group has come in one partition."""

    partition: TopicPartition
    committed: int | None
    """The committed position; None if there is none."""
    log_start_offset: int | None
    """None with the other end if the topic is gone."""
    log_end_offset: int | None
    """The high watermark."""
    member_id: str | None
    """Whose it is now."""

    @property
    def lag(self) -> int | None:
        """Records from the committed position to the high watermark; None if one is not known."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - self.committed)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    type: str
    group_epoch: int
    assignment_epoch: int
    """Equal to `group_epoch` where the target takes every member into account."""
    assignor: str
    members: tuple[GroupMember, ...]
    """By member id."""
    lags: tuple[PartitionLag, ...]
    """Of the partitions that are assigned or committed; by topic and partition."""


@dataclass(frozen=True, slots=True)
class RemovedMember:
    """What became of one member that was to be removed."""

    member_id: str
    instance_id: str | None
    error: StrandlineError | None
