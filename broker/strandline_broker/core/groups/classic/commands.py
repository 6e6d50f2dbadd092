"""The commands to a group of the classic protocol, and their answers.

A member joins (JoinGroup), takes its part of the leader's assignment (SyncGroup), and sends
heartbeats with the generation that it has joined. What members tell each other through the
coordinator, metadata and assignments, is opaque here.

JoinGroup and SyncGroup may wait for other members. Such a command is answered with `PARKED`, and
later, by the number of its call, with an `Answer` among the effects of another decision.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from strandline_proto.errors import WireError


@dataclass(frozen=True, slots=True)
class JoinProtocol:
    """A protocol that a member can follow, such as an assignor's, in the order of preference."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """A member joins the next generation. The answer is `GroupJoined`, `MemberIdGiven` or
    `PARKED`.
    """

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str = ""
    """The member's id; empty: it has none yet."""
    instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    client_id: str = ""
    client_host: str = ""
    requires_known_member_id: bool = True
    """True if a dynamic member gets its id before it joins (KIP-394): JoinGroup from version 4
    on.
    """
    skips_assignment: bool = True
    """True if the sender knows a leader that assigns nothing (KIP-814): from version 9 on."""
    reason: str = ""
    call: int = 0
    """Number of the call, by which a parked one is answered."""


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """A member takes its assignment; the leader brings those of all members. The answer is
    `GroupSynced` or `PARKED`.
    """

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    names_protocol: bool = True
    """True if the sender must name the protocol and its type: SyncGroup from version 5 on."""
    assignments: tuple[MemberAssignment, ...] = ()
    call: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicHeartbeat:
    """A member is alive. The answer is None."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str = ""
    """The member's id; empty: an administrator removes the member of that instance."""
    instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Members leave, or are removed by an administrator (KIP-345). The answer is `GroupLeft`."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class CallDropped:
    """The receiver of a parked call's answer is gone. The answer is None."""

    group_id: str
    call: int


@dataclass(frozen=True, slots=True)
class JoinEnded:
    """The timer with that key has fired: the wait for members to join is over. The answer is
    None.
    """

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncEnded:
    """The timer with that key has fired: the wait for the members of a generation to sync is over.
    The answer is None.
    """

    group_id: str
    generation: int


class Parked(enum.Enum):
    PARKED = "parked"


PARKED: Final = Parked.PARKED
"""The call is answered later, by its number."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes
    """The member's metadata for the chosen protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined:
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    skip_assignment: bool = False
    """True if the leader assigns nothing: the assignment stands."""
    members: tuple[JoinedMember, ...] = ()
    """All members, for the leader; empty for others."""


@dataclass(frozen=True, slots=True)
class MemberIdGiven:
    """The id with which a new member joins now: Kafka's error MEMBER_ID_REQUIRED."""

    member_id: str


@dataclass(frozen=True, slots=True)
class GroupSynced:
    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class LeftMember:
    member_id: str
    instance_id: str | None
    error: WireError | None


@dataclass(frozen=True, slots=True)
class GroupLeft:
    members: tuple[LeftMember, ...]
    """The members, in the order of the request."""


ClassicCommand: TypeAlias = (
    JoinGroup | SyncGroup | ClassicHeartbeat | LeaveGroup | CallDropped | JoinEnded | SyncEnded
)
CallReply: TypeAlias = "GroupJoined | GroupSynced | WireError"
"""An answer to a parked call."""
ClassicReply: TypeAlias = "GroupJoined | MemberIdGiven | GroupSynced | GroupLeft | Parked"
