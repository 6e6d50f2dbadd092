"""The commands to the groups of a shard, and their answers.

A command names its group. `Groups.decide` takes it together with all other inputs of the decision
(`Inputs`), so that equal state and inputs give equal records (I-113). Answers are plain values, or
a `WireError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from strandline_broker.core.groups.classic.commands import ClassicCommand
from strandline_broker.core.groups.settings import INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.coordination.decision import Producer
    from strandline_broker.core.groups.assignors import GroupAssignment, PartitionSets
    from strandline_broker.core.groups.classic.commands import ClassicReply
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_proto.errors import WireError
    from strandline_proto.ids import TopicId

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
NO_EPOCH: Final = -1
"""Epoch of a commit or fetch without a member."""
UNCHANGED: Final = -1
"""Value of a rebalance timeout: unchanged."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a decision besides the state."""

    now_ms: int
    """Monotonic clock."""
    wall_ms: int
    metadata: MetadataView
    """The cluster's metadata, with the configuration of single groups."""
    members: int = 0
    """Number of members that this broker has in all its groups."""
    random: bytes = b""
    """16 fresh random bytes, for a member id that the coordinator creates."""
    batch_bytes_max: int = INT32_MAX
    """Limit of bytes for the decision's records."""

    def configs_of(self, group_id: str) -> Mapping[str, str]:
        """The keys of `group_config.py` that are altered for the group."""
        return self.metadata.dynamic_configs.groups.get(group_id, {})


# Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerBeat:
    """One heartbeat of a member; a field that is None is unchanged.

    The answer is `ToRender`, for which the host calls `Groups.render` when the answer may be sent.
    A leaving member gets a `BeatAnswer`.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: PartitionSets | None = None
    client_id: str = ""
    client_host: str = ""
    crossed: bool = False
    """True if it was sent before its sender had seen the last push of its stream. The member is
    then alive and its subscription counts, but its epoch and its owned list are ignored (I-134).
    Such a heartbeat cannot join: its sender may have been fenced since.
    """

    @property
    def joins(self) -> bool:
        return self.member_epoch == JOIN_EPOCH and not self.crossed


@dataclass(frozen=True, slots=True)
class ToRender:
    """Render the member's state when the answer is sent (I-131)."""

    group_id: str
    member_id: str
    full: bool
    """True if the assignment is included, even if it was sent before."""


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: PartitionSets | None
    """The assignment; None: unchanged since the last answer."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Bring members closer to their target without a heartbeat of theirs. It grants free partitions
    and asks for those to give up, and frees nothing. It is for members that a push reaches; others
    follow with their next heartbeat. The answer is None.
    """

    group_id: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A target that was computed outside, for `Compute`. The answer is True if it was accepted. A
    target of an earlier group epoch is dropped, and a new `Compute` is under way (P-149).
    """

    group_id: str
    group_epoch: int
    target: GroupAssignment


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The timer with that key has fired. The answer is None."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceEnded:
    """The timer with that key has fired: the member has not given up its partitions in time. The
    answer is None.
    """

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics were added, removed or extended since the group's last check; also sent once after a
    load for every group. The answer is None.
    """

    group_id: str


@dataclass(frozen=True, slots=True)
class MemberToRemove:
    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveMembers:
    """Removal of members by an administrator. The answer is `MembersRemoved`, in the order of the
    request.
    """

    group_id: str
    members: tuple[MemberToRemove, ...] | None
    """The members; None: all that the group has."""


@dataclass(frozen=True, slots=True)
class RemovedMember:
    member_id: str
    instance_id: str | None
    error: WireError | None


@dataclass(frozen=True, slots=True)
class MembersRemoved:
    members: tuple[RemovedMember, ...]


# Offsets


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A topic by its id or, where that is None, by its name."""

    topic_id: TopicId | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class PartitionCommit:
    topic: TopicRef
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """A commit by a member (id and epoch, or classic generation), or without a member (no id,
    `NO_EPOCH`). The answer is `OffsetsCommitted`.
    """

    group_id: str
    partitions: tuple[PartitionCommit, ...]
    member_id: str = ""
    member_epoch: int = NO_EPOCH
    instance_id: str | None = None
    knows_member_epochs: bool = True
    """True if the sender knows member epochs: Kafka's OffsetCommit from version 9 on."""
    retention_ms: int | None = None
    """Life of the offsets from now on; None: the broker's retention decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    """A commit as a part of the producer's transaction, which decides about it. The answer is
    `OffsetsCommitted`.

    The sender has verified that the transaction is open and contains the partition of this shard.
    """

    group_id: str
    partitions: tuple[PartitionCommit, ...]
    producer: Producer
    member_id: str = ""
    member_epoch: int = NO_EPOCH
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    errors: tuple[WireError | None, ...]
    """Errors in the order of the request; None: committed."""


@dataclass(frozen=True, slots=True)
class TopicPartitionsRef:
    topic: TopicRef
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """A read of committed offsets. The answer is `OffsetsFetched`."""

    group_id: str
    member_id: str = ""
    member_epoch: int = NO_EPOCH
    topics: tuple[TopicPartitionsRef, ...] | None = None
    """The partitions; None: every partition that has an offset."""
    require_stable: bool = False
    """True: UnstableOffsetCommit is the answer for a partition with an offset in an open
    transaction (I-147).
    """


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    topic_id: TopicId | None
    """Id of the topic; None: only the name is known."""
    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: WireError | None = None


@dataclass(frozen=True, slots=True)
class OffsetsFetched:
    offsets: tuple[FetchedOffset, ...]
    """Offsets in the order of the request, else by topic name and partition."""


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Deletion of offsets. The answer is `OffsetsDeleted`, in the order of the request."""

    group_id: str
    topics: tuple[TopicPartitionsRef, ...]


@dataclass(frozen=True, slots=True)
class DeletedOffset:
    topic_id: TopicId | None
    topic: str
    partition: int
    error: WireError | None


@dataclass(frozen=True, slots=True)
class OffsetsDeleted:
    offsets: tuple[DeletedOffset, ...]


@dataclass(frozen=True, slots=True)
class Expire:
    """Remove a group's offsets that are past their retention, and the group with its last offset.
    The answer is the number of offsets removed; if that is `EXPIRED_AT_ONCE_MAX` there may be more.
    """

    group_id: str


EXPIRED_AT_ONCE_MAX: Final = 10_000
"""Limit that keeps the batch far below the topic's max.message.bytes."""


@dataclass(frozen=True, slots=True)
class ProveLeadership:
    """Write a record that says nothing: once it is committed, this coordinator led when it was
    asked. Answered by None.
    """

    group_id: str
    """Any of the shard, whose record it is."""


# Groups as a whole


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Deletion of a group. The answer is None."""

    group_id: str


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    """Description of a group. The answer is a `GroupDescription`."""

    group_id: str


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: PartitionSets
    target: PartitionSets
    metadata: bytes = b""
    """The metadata of a classic group's member for the group's protocol, while it is stable."""
    assignment_bytes: bytes = b""
    """The assignment of a classic group's member as its leader has written it."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    group_type: str
    """`Consumer` or `Classic`."""
    state: str
    protocol_type: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    """The assignor, or the protocol of a stable classic group."""
    members: tuple[DescribedMember, ...]


@dataclass(frozen=True, slots=True)
class ListGroups:
    """A list of groups. The answer is `GroupsListed`, sorted by group id."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class GroupsListed:
    groups: tuple[ListedGroup, ...]


OffsetsCommand: TypeAlias = CommitOffsets | TxnOffsetCommit | FetchOffsets | DeleteOffsets
GroupCommand: TypeAlias = (
    ConsumerBeat
    | Reconcile
    | Assigned
    | SessionEnded
    | RebalanceEnded
    | TopicsChanged
    | RemoveMembers
    | OffsetsCommand
    | Expire
    | DeleteGroup
    | DescribeGroup
    | ListGroups
    | ProveLeadership
)
"""Commands to groups of either protocol, and to those of the consumer protocol."""
Command: TypeAlias = GroupCommand | ClassicCommand
Reply: TypeAlias = (
    "ToRender | BeatAnswer | MembersRemoved | OffsetsCommitted | OffsetsFetched | OffsetsDeleted"
    " | GroupDescription | GroupsListed | ClassicReply | int | bool | WireError | None"
)
