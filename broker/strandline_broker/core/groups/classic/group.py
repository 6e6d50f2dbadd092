"""One group of the classic protocol as its members know it: the part of its state that is volatile.

The record of a group holds its last generation that has an assignment, or the group without
members. Everything since is in memory only: the members that join, the ids handed out, the calls
that wait. `replay` never touches it. After a failover the members of the record are a stable group
again, and their next calls repeat the rest.

States are Kafka's. A Dead group is one that this coordinator does not have.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from strandline_broker.core.groups.classic.commands import JoinProtocol
from strandline_broker.core.groups.classic.consumer_protocol import subscribed_names
from strandline_broker.core.groups.records.classic_records import (
    ClassicMember,
    GroupMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class GroupState(enum.Enum):
    EMPTY = "Empty"
    """No members; ids may have been handed out."""
    PREPARING = "PreparingRebalance"
    """Members join the next generation."""
    COMPLETING = "CompletingRebalance"
    """The generation has members, and no assignment yet."""
    STABLE = "Stable"
    """The assignment is in the log."""


@dataclass(slots=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]
    """The member's protocols in the order of preference. After a load only that of the generation
    is known.
    """
    assignment: bytes = b""
    knows_its_id: bool = True
    """False for a new dynamic member whose first answer brings its id."""
    is_new: bool = False
    """True before the member's first answer to JoinGroup."""
    join_call: int | None = None
    sync_call: int | None = None

    @property
    def is_parked(self) -> bool:
        """True while a call of the member waits for others."""
        return self.join_call is not None or self.sync_call is not None

    def metadata(self, protocol: str | None) -> bytes:
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def shown_metadata(self, protocol: str | None) -> bytes:
        """The metadata for the group's protocol; before there is one, for the preferred one."""
        return self.metadata(protocol) or next((each.metadata for each in self.protocols), b"")


@dataclass(slots=True)
class ClassicGroup:
    group_id: str
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    state: GroupState = GroupState.EMPTY
    changed_at_ms: int | None = None
    """Wall-clock time of the last change of the state."""
    members: dict[str, Member] = field(default_factory=dict)
    """Members by id, in the order in which they have entered the group."""
    instances: dict[str, str] = field(default_factory=dict)
    """Ids of static members by their instances."""
    pending: dict[str, None] = field(default_factory=dict)
    """Ids that were handed out and have not joined yet."""
    joined: set[str] = field(default_factory=set)
    """Members that have joined the next generation."""
    unsynced: dict[str, None] = field(default_factory=dict)
    """Members of the generation that have not sent their SyncGroup."""
    calls: dict[int, str] = field(default_factory=dict)
    """Members by the numbers of their parked calls."""
    initial_rest_ms: int | None = None
    """Time by which the first rebalance can still be prolonged; None: it is not the first."""
    has_grown: bool = False
    """True if a member was added since the first rebalance began, or was prolonged."""
    _support: Counter[str] = field(default_factory=Counter)
    """Number of members that can follow each protocol."""

    @property
    def is_void(self) -> bool:
        """True if nothing is known but the group's record."""
        return self.state is GroupState.EMPTY and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def all_joined(self) -> bool:
        """True if every member and every handed-out id has joined the next generation."""
        return not self.pending and len(self.joined) == len(self.members)

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """True if a member with these protocols can be in the group."""
        if self.state is GroupState.EMPTY:
            return protocol_type != "" and any(True for _ in names)
        return self.protocol_type == protocol_type and any(
            self._support[name] == len(self.members) for name in names
        )

    def vote(self) -> str:
        """The protocol of the next generation. Every member votes for its first among those that
        all can follow; the smallest name wins a tie.
        """
        assert self.members, "a group without members has no protocol"
        count = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            choice = next(
                (p.name for p in member.protocols if self._support[p.name] == count), None
            )
            assert choice is not None, (self.group_id, member.member_id, self._support)
            votes[choice] += 1
        return min(votes, key=lambda name: (-votes[name], name))

    def subscribed_names(self) -> set[str] | None:
        """The topics to which members subscribe; None: the metadata of one does not parse, so it
        may be any.
        """
        found: set[str] = set()
        for member in self.members.values():
            names = subscribed_names(member.shown_metadata(self.protocol))
            if names is None:
                return None
            found |= names
        return found

    # Changes of the members

    def add(self, member: Member) -> None:
        self.pending.pop(member.member_id, None)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Removes a member, whose calls have been answered, or a handed-out id."""
        self.pending.pop(member_id, None)
        self.joined.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        assert not member.is_parked, member
        self._count(member, -1)
        instance_id = member.instance_id
        if instance_id is not None and self.instances.get(instance_id) == member_id:
            del self.instances[instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, member_id: str, new_id: str) -> Member:
        """Gives a static member another id. It keeps its place, its part and its leadership."""
        member = self.members[member_id]
        assert not member.is_parked, member
        assert member.instance_id is not None, member
        self.members = {
            new_id if each == member_id else each: found for each, found in self.members.items()
        }
        member.member_id = new_id
        self.instances[member.instance_id] = new_id
        if self.leader == member_id:
            self.leader = new_id
        if member_id in self.joined:
            self.joined.remove(member_id)
            self.joined.add(new_id)
        if member_id in self.unsynced:
            del self.unsynced[member_id]
            self.unsynced[new_id] = None
        return member

    def change_protocols(self, member: Member, protocols: tuple[JoinProtocol, ...]) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def elect(self) -> bool:
        """Ensures that the leader has joined. False: no member has.

        A member whose call still waits precedes one whose connection has ended.
        """
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.join_call is not None:
            return True
        waiting = (m for m in self.members.values() if m.join_call is not None)
        joined = (m for m in self.members.values() if m.member_id in self.joined)
        chosen = next(waiting, None) or next(joined, None)
        if chosen is None:
            return False
        if self.leader not in self.joined or chosen.join_call is not None:
            self.leader = chosen.member_id
        return True

    def _count(self, member: Member, by: int) -> None:
        for name in {each.name for each in member.protocols}:
            self._support[name] += by
            if self._support[name] == 0:
                del self._support[name]

    # Its record

    def value(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """The content of the group's record, with these assignments or its own."""
        protocol = self.protocol
        assert protocol is not None or not self.members, self.group_id
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=protocol,
            leader=self.leader,
            current_state_timestamp_ms=self.changed_at_ms,
            members=tuple(
                ClassicMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(protocol),
                    assignment=(
                        member.assignment
                        if assignments is None
                        else assignments.get(member.member_id, b"")
                    ),
                )
                for member in self.members.values()
            ),
        )


def from_value(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group of a record: stable with its members, or empty."""
    group = ClassicGroup(
        group_id,
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        changed_at_ms=value.current_state_timestamp_ms,
    )
    for each in {member.member_id: member for member in value.members}.values():
        group.add(
            Member(
                member_id=each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                session_timeout_ms=each.session_timeout_ms,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                protocols=(JoinProtocol(value.protocol or "", each.subscription),),
                assignment=each.assignment,
            )
        )
    if group.members:
        group.state = GroupState.STABLE
        group.leader = value.leader
    return group


def renamed(
    value: GroupMetadataValue | None, instance_id: str, new_id: str
) -> GroupMetadataValue | None:
    """The record with another id for the member of an instance; None: the record need not
    change.
    """
    if value is None:
        return None
    old = next((m for m in value.members if m.group_instance_id == instance_id), None)
    if old is None or old.member_id == new_id:
        return None
    return replace(
        value,
        leader=new_id if value.leader == old.member_id else value.leader,
        members=tuple(replace(m, member_id=new_id) if m is old else m for m in value.members),
    )
