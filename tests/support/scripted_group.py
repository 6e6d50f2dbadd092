"""A group as its coordinator keeps it, in a few lines: for tests of the client's half.

Targets are ranges over the sorted member ids, so that a join or leave moves a lot. There is no log
and no clock: tests expire members themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from strandline_proto import errors as wire

Key = tuple[bytes, int]


class View(NamedTuple):
    """What a member is told."""

    epoch: int
    assigned: frozenset[Key]


@dataclass
class ScriptedMember:
    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    epoch: int = 0
    previous_epoch: int = -1
    assigned: set[Key] = field(default_factory=set)
    pending: set[Key] = field(default_factory=set)
    is_away: bool = False
    """A static member that has left for a while."""

    @property
    def view(self) -> View:
        return View(self.epoch, frozenset(self.assigned))


class ScriptedGroup:
    """Members, target and committed offsets of one group."""

    def __init__(self, topics: dict[str, tuple[bytes, int]]) -> None:
        self.topics = topics
        self.epoch = 0
        self.members: dict[str, ScriptedMember] = {}
        self.offsets: dict[Key, tuple[int, int, str]] = {}
        self.commits: list[dict[Key, int]] = []
        """The accepted ones, in order."""

    def target(self, member_id: str) -> set[Key]:
        found: set[Key] = set()
        for name, (topic_id, partitions) in self.topics.items():
            subscribers = sorted(m for m, known in self.members.items() if name in known.topics)
            if member_id not in subscribers:
                continue
            at, among = subscribers.index(member_id), len(subscribers)
            first, end = at * partitions // among, (at + 1) * partitions // among
            found |= {(topic_id, p) for p in range(first, end)}
        return found

    def join(self, member_id: str, topics: frozenset[str], instance_id: str | None) -> int:
        for other in list(self.members.values()):
            if instance_id is None or other.instance_id != instance_id:
                continue
            if other.member_id == member_id:
                continue
            if not other.is_away:
                return wire.UnreleasedInstanceId.code
            del self.members[other.member_id]
            taken = ScriptedMember(member_id, instance_id, topics, assigned=other.assigned)
            self.members[member_id] = taken
        if member_id not in self.members:
            self.members[member_id] = ScriptedMember(member_id, instance_id, topics)
        member = self.members[member_id]
        member.is_away, member.topics = False, topics
        self.epoch += 1
        self.reconcile(member_id, None if member.assigned else set())
        return 0

    def beat(self, member_id: str, epoch: int, owned: set[Key] | None) -> int:
        member = self.members.get(member_id)
        if member is None:
            return wire.UnknownMemberId.code
        if epoch != member.epoch:
            lost_answer = epoch == member.previous_epoch and owned is not None
            if not lost_answer or not owned <= member.assigned:  # type: ignore[operator]
                return wire.FencedMemberEpoch.code
        self.reconcile(member_id, owned)
        return 0

    def subscribe(self, member_id: str, topics: frozenset[str]) -> None:
        member = self.members.get(member_id)
        if member is not None and member.topics != topics:
            member.topics = topics
            self.epoch += 1

    def held_by_others(self, member_id: str) -> set[Key]:
        return {
            key
            for other in self.members.values()
            if other.member_id != member_id
            for key in other.assigned | other.pending
        }

    def reconcile(self, member_id: str, owned: set[Key] | None) -> None:
        member, target = self.members[member_id], self.target(member_id)
        if member.pending and (owned is None or owned & member.pending):
            return
        revoke = member.assigned - target
        if revoke and (owned is None or owned & revoke):
            member.assigned &= target
            member.pending = revoke
            return
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        member.assigned &= target
        member.assigned |= target - self.held_by_others(member_id)
        member.pending = set()

    def reconcile_all(self) -> None:
        for member_id in sorted(self.members):
            self.reconcile(member_id, None)

    def remove(self, member_id: str) -> int:
        if self.members.pop(member_id, None) is None:
            return wire.UnknownMemberId.code
        self.epoch += 1
        return 0

    def commit(self, member_id: str, epoch: int, offsets: dict[Key, tuple[int, int, str]]) -> int:
        if member_id or self.members:
            member = self.members.get(member_id)
            if member is None:
                return wire.UnknownMemberId.code
            if epoch != member.epoch:
                return wire.StaleMemberEpoch.code
        self.offsets |= offsets
        self.commits.append({key: at[0] for key, at in offsets.items()})
        return 0

    @property
    def is_stable(self) -> bool:
        return all(
            m.epoch == self.epoch and not m.pending and m.assigned == self.target(m.member_id)
            for m in self.members.values()
        )
