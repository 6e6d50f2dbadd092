"""What the groups of a shard are asked, and what they answer.

A command names its group; `Groups.decide` takes it together with what it may depend on beside the
groups themselves (`Inputs`), so that the same state and inputs give the same records (I-113).
Answers are plain values, or a `WireError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.groups.assignors import GroupAssignment, PartitionSets
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_proto.errors import WireError
    from strandline_proto.ids import TopicId

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
NO_EPOCH: Final = -1
"""Of a commit or fetch by nobody's member."""
UNCHANGED: Final = -1
"""Of a rebalance timeout: as the member said before."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a decision depends on beside the state."""

    now_ms: int
    """Monotonic."""
    wall_ms: int
    metadata: MetadataView
    """With what is configured of single groups."""
    members: int = 0
    """That this broker has in all its groups."""
    random: bytes = b""
    """16 fresh ones, for a member id that the coordinator makes."""

    def configs_of(self, group_id: str) -> Mapping[str, str]:
        """The keys of `group_config.py` that are altered for it."""
        return self.metadata.dynamic_configs.groups.get(group_id, {})


# Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerBeat:
    """One heartbeat of a member; a field that is None says: as it was. Answered by `ToRender` (the
    host calls `Groups.render` when the answer may leave) or, to a leaving member, a `BeatAnswer`.
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
    """It was sent before its sender had seen the last push of its stream: the member is alive and
    its subscription counts, but neither its epoch nor its owned list says anything (I-134). Nobody
    joins by it: its sender may have been fenced since.
    """

    @property
    def joins(self) -> bool:
        return self.member_epoch == JOIN_EPOCH and not self.crossed


@dataclass(frozen=True, slots=True)
class ToRender:
    """Say to this member what holds for it when the answer leaves (I-131)."""

    group_id: str
    member_id: str
    full: bool
    """With the assignment, whether or not it was told before."""


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: PartitionSets | None
    """None: as it was told last."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Bring members closer to their target without having heard from them: it grants what is free
    and asks for what must be given up, and frees nothing. For members that a push reaches; others
    are brought there by their next heartbeat. Answered by None.
    """

    group_id: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A target that was computed outside, for `Compute`. Answered by whether it was taken: one of
    an earlier group epoch is dropped, and a new `Compute` is under way (P-149).
    """

    group_id: str
    group_epoch: int
    target: GroupAssignment


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The timer of that key has fired. Answered by None."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceEnded:
    """The timer of that key has fired: the member has not given up in time what it must. Answered
    by None.
    """

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics have come, gone or grown since the group was asked last; also asked once after a load
    for every group. Answered by None.
    """

    group_id: str


@dataclass(frozen=True, slots=True)
class MemberToRemove:
    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveMembers:
    """An administrator's. Answered by `MembersRemoved`, in the order of the request."""

    group_id: str
    members: tuple[MemberToRemove, ...] | None
    """None: all that the group has."""


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
    """By a member (id and epoch, or classic generation), or by nobody's (no id, `NO_EPOCH`).
    Answered by `OffsetsCommitted`.
    """

    group_id: str
    partitions: tuple[PartitionCommit, ...]
    member_id: str = ""
    member_epoch: int = NO_EPOCH
    instance_id: str | None = None
    knows_member_epochs: bool = True
    """Whether its sender speaks of member epochs: Kafka's OffsetCommit from version 9 on."""


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    errors: tuple[WireError | None, ...]
    """In the order of the request; None: committed."""


@dataclass(frozen=True, slots=True)
class TopicPartitionsRef:
    topic: TopicRef
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """Answered by `OffsetsFetched`."""

    group_id: str
    member_id: str = ""
    member_epoch: int = NO_EPOCH
    topics: tuple[TopicPartitionsRef, ...] | None = None
    """None: every partition that has one."""
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    topic_id: TopicId | None
    """None: only the name is known."""
    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: WireError | None = None


@dataclass(frozen=True, slots=True)
class OffsetsFetched:
    offsets: tuple[FetchedOffset, ...]
    """In the order of the request, else by topic name and partition."""


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Answered by `OffsetsDeleted`, in the order of the request."""

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
    """Forget what of a group is past its retention, and the group with its last offset. Answered by
    the number of offsets forgotten; if that is `EXPIRED_AT_ONCE_MAX` there may be more.
    """

    group_id: str


EXPIRED_AT_ONCE_MAX: Final = 10_000
"""So that the batch stays far below the topic's max.message.bytes."""


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
    """Answered by None."""

    group_id: str


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    """Answered by a `GroupDescription`."""

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
    members: tuple[DescribedMember, ...]


@dataclass(frozen=True, slots=True)
class ListGroups:
    """Answered by `GroupsListed`, sorted by group id."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class GroupsListed:
    groups: tuple[ListedGroup, ...]


Command: TypeAlias = (
    ConsumerBeat
    | Reconcile
    | Assigned
    | SessionEnded
    | RebalanceEnded
    | TopicsChanged
    | RemoveMembers
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | Expire
    | DeleteGroup
    | DescribeGroup
    | ListGroups
    | ProveLeadership
)
Reply: TypeAlias = (
    "ToRender | BeatAnswer | MembersRemoved | OffsetsCommitted | OffsetsFetched | OffsetsDeleted"
    " | GroupDescription | GroupsListed | int | bool | WireError | None"
)
