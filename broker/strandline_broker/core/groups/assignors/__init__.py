"""The server-side assignors: they divide the partitions of subscribed topics among a group's
members.

An assignor is a pure function of the group's specification. Equal specifications give equal
assignments in every process (I-113). An assignor therefore iterates in sorted order, members by
`sort_key` and topics by id, and uses no random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_proto.ids import TopicId

PartitionSets: TypeAlias = "Mapping[TopicId, tuple[int, ...]]"
"""Partitions by topic: no empty tuple, every tuple in rising order."""
GroupAssignment: TypeAlias = "Mapping[str, PartitionSets]"
"""The partitions that each member is to own, by member id. Every member of the specification is
included.
"""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    instance_id: str | None
    rack_id: str | None
    topics: frozenset[TopicId]
    """The group's topics that the member subscribes to. Members with equal subscriptions mostly
    share one object.
    """
    assigned: PartitionSets
    """The member's part of the previous target; it may name topics that are gone or not
    subscribed.
    """


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, MemberSpec]
    """The members, by member id."""
    partitions: Mapping[TopicId, int]
    """The number of partitions of every topic that some member subscribes to and that exists."""


class Assignor(Protocol):
    @property
    def name(self) -> str:
        """The name in requests of members and in the configuration."""

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        """Assign every partition of a subscribed topic to exactly one of its subscribers, and no
        other partition (I-129). It may run outside the event loop.
        """


def sort_key(member_id: str, member: MemberSpec) -> tuple[str, str]:
    """The order of members: a static one keeps its place when its process starts again."""
    return (member.instance_id or member_id, member_id)
