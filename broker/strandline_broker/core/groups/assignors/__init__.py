"""How the partitions of subscribed topics are divided among a group's members, on the server.

An assignor is a pure function of what a group looks like. Equal specifications give equal
assignments in every process (I-113): it iterates in sorted order, members by `sort_key`, topics by
id, and draws nothing by chance.
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
"""What each member is to own, by member id. Every member of the specification is in it."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    instance_id: str | None
    rack_id: str | None
    topics: frozenset[TopicId]
    """Which of the group's topics it subscribes to. Members that subscribe to the same topics
    mostly share one object.
    """
    assigned: PartitionSets
    """Its part of the target before; it may name topics that are gone or not subscribed."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, MemberSpec]
    """By member id."""
    partitions: Mapping[TopicId, int]
    """The number of partitions of every topic that some member subscribes to and that exists."""


class Assignor(Protocol):
    @property
    def name(self) -> str:
        """What members and the configuration call it."""

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        """Every partition of a subscribed topic to exactly one of its subscribers, and nothing else
        (I-129). It may run outside the event loop.
        """


def sort_key(member_id: str, member: MemberSpec) -> tuple[str, str]:
    """The order of members: a static one keeps its place when its process starts again."""
    return (member.instance_id or member_id, member_id)
