"""The values that calls about consumer groups take and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """A committed offset: the offset of the next record to read, and a text of the application.

    `leader_epoch` is the epoch of the record before the offset; -1 if unknown. A commit of a
    consumer adds it for records that this consumer has delivered.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Partition: TypeAlias = "TopicPartition | tuple[str, int]"
ToCommit: TypeAlias = "Mapping[Partition, int | tuple[int, str] | OffsetAndMetadata]"
"""Offsets to commit, of the records to read next."""


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's identity in its group.

    A consumer that does not subscribe has an empty member id and generation -1.
    """

    group_id: str
    generation_id: int
    """The member's epoch."""
    member_id: str
    group_instance_id: str | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One entry of `Admin.list_groups`."""

    group_id: str
    state: str
    """`Empty`, `Assigning`, `Reconciling`, `Stable` or `Dead`; of a classic group `Empty`,
    `PreparingRebalance`, `CompletingRebalance` or `Stable`.
    """
    type: str
    """`Consumer` or `Classic`."""
    protocol_type: str
    coordinator: int
    """Id of the broker that listed the group."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a group, as its coordinator describes it."""

    member_id: str
    instance_id: str | None
    """The group instance id of a static member; None for a dynamic one."""
    rack: str | None
    client_id: str
    host: str
    member_epoch: int
    """The member's epoch; in a classic group, the generation."""
    subscribed_topics: tuple[str, ...]
    subscribed_pattern: str | None
    assignment: frozenset[TopicPartition]
    """The partitions that the member may own now."""
    target_assignment: frozenset[TopicPartition]
    """The partitions that the member is to own once the rebalance ends."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The progress of a group in one partition."""

    partition: TopicPartition
    committed: int | None
    """The committed position; None if there is none."""
    log_start_offset: int | None
    """First offset in the log; None, as `log_end_offset`, if the topic is gone."""
    log_end_offset: int | None
    """The high watermark; None if the topic is gone."""
    member_id: str | None
    """The member that owns the partition now; None if there is none."""

    @property
    def lag(self) -> int | None:
        """Records from the committed position to the high watermark; None if one is not known."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - self.committed)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group, its members and its lags, as its coordinator describes it."""

    group_id: str
    state: str
    type: str
    group_epoch: int
    """The group's epoch; of a classic group, the generation."""
    assignment_epoch: int
    """Epoch of the target assignment; equals `group_epoch` once it covers every member."""
    assignor: str
    """The assignor; of a stable classic group, the protocol that its members share."""
    members: tuple[GroupMember, ...]
    """Members, sorted by member id."""
    lags: tuple[PartitionLag, ...]
    """Lags of assigned or committed partitions, sorted by topic and partition."""


@dataclass(frozen=True, slots=True)
class RemovedMember:
    """The outcome of `Admin.remove_members` for one member; `error` is None if it was removed."""

    member_id: str
    instance_id: str | None
    error: StrandlineError | None
