"""The rules of consumer groups, recomputed from the records alone by code of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.records import consumer_records as records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.core.coordination.decision import Record
    from strandline_proto.ids import TopicId
    from support.group_clients import Place


@dataclass
class Reference:
    """One group, `g`, as its log tells it."""

    epoch: int = 0
    assignment_epoch: int = 0
    members: dict[str, records.ConsumerGroupMemberMetadataValue] = field(default_factory=dict)
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    targets: dict[str, set[Place]] = field(default_factory=dict)
    currents: dict[str, records.ConsumerGroupCurrentMemberAssignmentValue] = field(
        default_factory=dict
    )

    def take(self, batch: Iterable[Record], topics: Mapping[str, tuple[TopicId, int]]) -> None:
        """One decision, with the topics that there are; asserts what must hold of it."""
        before = _Before(self)
        wrote_target_epoch = self._apply(batch)
        before.check(self, wrote_target_epoch=wrote_target_epoch)
        if wrote_target_epoch and self.members:
            self.check_target(topics)
        self.check()

    def restore(self, log: Iterable[Record]) -> None:
        """The same of a whole log, of which only the end is looked at."""
        self._apply(log, whole=True)
        self.check()

    def _apply(self, batch: Iterable[Record], *, whole: bool = False) -> bool:
        """Whether the target's epoch is in it."""
        wrote_target_epoch = False
        for record in batch:
            key = record.key
            value: Any = record.value
            if isinstance(key, records.ConsumerGroupMetadataKey):
                self._epoch(value)
            elif isinstance(key, records.ConsumerGroupMemberMetadataKey):
                _put(self.members, key.member_id, value)
            elif isinstance(key, records.ConsumerGroupRegularExpressionKey):
                _put(self.regexes, key.regex, None if value is None else value.topics)
            elif isinstance(key, records.ConsumerGroupTargetAssignmentMemberKey):
                assert whole or not wrote_target_epoch, "a member's target after its epoch"
                _put(self.targets, key.member_id, None if value is None else places(value.topics))
            elif isinstance(key, records.ConsumerGroupTargetAssignmentMetadataKey):
                wrote_target_epoch = True
                self._assignment_epoch(value)
            elif isinstance(key, records.ConsumerGroupCurrentMemberAssignmentKey):
                _put(self.currents, key.member_id, value)
        return wrote_target_epoch

    def _epoch(self, value: records.ConsumerGroupMetadataValue | None) -> None:
        assert value is None or value.epoch == self.epoch + 1, (self.epoch, value)
        self.epoch = 0 if value is None else value.epoch

    def _assignment_epoch(
        self, value: records.ConsumerGroupTargetAssignmentMetadataValue | None
    ) -> None:
        assert value is None or value.assignment_epoch == self.epoch, (self.epoch, value)
        self.assignment_epoch = 0 if value is None else value.assignment_epoch

    def subscribed(self, member_id: str) -> set[str]:
        member = self.members[member_id]
        regex = member.subscribed_topic_regex
        return set(member.subscribed_topic_names) | set(self.regexes.get(regex or "", ()))

    def check_target(self, topics: Mapping[str, tuple[TopicId, int]]) -> None:
        """I-129."""
        wanted: dict[Place, set[str]] = {}
        for member_id in self.members:
            for name in self.subscribed(member_id) & set(topics):
                topic_id, count = topics[name]
                for partition in range(count):
                    wanted.setdefault((topic_id, partition), set()).add(member_id)
        given: dict[Place, list[str]] = {}
        for member_id, target in self.targets.items():
            for place in target:
                given.setdefault(place, []).append(member_id)
        assert set(given) == set(wanted)
        for place, owners in given.items():
            assert len(owners) == 1, (place, owners)
            assert owners[0] in wanted[place], (place, owners)

    def holders(self) -> dict[Place, str]:
        """I-130: raises where two hold one."""
        found: dict[Place, str] = {}
        for member_id, current in self.currents.items():
            for place in held(current):
                assert place not in found, (place, member_id, found[place])
                found[place] = member_id
        return found

    def check(self) -> None:
        assert set(self.currents) == set(self.members), "I-138"
        assert set(self.targets) <= set(self.members), "I-138"
        assert self.assignment_epoch <= self.epoch, "I-127"
        self.holders()
        for member_id, current in self.currents.items():
            assert current.member_epoch <= self.assignment_epoch, "I-127"
            assert current.previous_member_epoch <= current.member_epoch or is_absent(current)
            target = self.targets.get(member_id, set())
            if current.member_epoch == self.assignment_epoch:
                assert held(current) <= target, "I-133"
            if current.state == 0 and not is_absent(current):
                assert not current.pending_revocation
            if current.state == 1:
                assert current.pending_revocation
        instances = [m.instance_id for m in self.members.values() if m.instance_id is not None]
        assert len(instances) == len(set(instances)), "I-123"


class _Before:
    def __init__(self, group: Reference) -> None:
        self.epoch = group.epoch
        self.assignment_epoch = group.assignment_epoch
        self.epochs = {m: c.member_epoch for m, c in group.currents.items()}
        self.absent = {m for m, c in group.currents.items() if is_absent(c)}
        self.concerns = _concerns(group)
        self.targets = _targets(group)

    def check(self, after: Reference, *, wrote_target_epoch: bool) -> None:
        if not after.members and after.epoch == 0:
            return  # the group was deleted
        assert after.epoch >= self.epoch, "I-127"
        assert after.assignment_epoch >= self.assignment_epoch, "I-127"
        if self.concerns != _concerns(after):
            assert after.epoch == self.epoch + 1, "I-128"
        if not wrote_target_epoch:
            targets = _targets(after)
            for owner in set(targets) & set(self.targets):
                assert targets[owner] == self.targets[owner], "I-128"
        for member_id, current in after.currents.items():
            if member_id in self.epochs and not is_absent(current):
                assert current.member_epoch >= self.epochs[member_id], "I-127"


def _targets(group: Reference) -> dict[str, set[Place]]:
    return {
        member.instance_id or member_id: group.targets.get(member_id, set())
        for member_id, member in group.members.items()
    }


def _concerns(group: Reference) -> list[tuple[str, tuple[str, ...], str | None, str | None]]:
    """What of the members concerns the others; a static one is the same under another id."""
    return sorted(
        (
            member.instance_id or member_id,
            member.subscribed_topic_names,
            member.subscribed_topic_regex or "",
            member.server_assignor or "",
        )
        for member_id, member in group.members.items()
    )


def held(current: records.ConsumerGroupCurrentMemberAssignmentValue) -> set[Place]:
    return places(current.assigned) | places(current.pending_revocation)


def is_absent(current: records.ConsumerGroupCurrentMemberAssignmentValue) -> bool:
    return current.member_epoch == -2


def places(topics: Iterable[records.TopicPartitions]) -> set[Place]:
    return {(topic.topic_id, partition) for topic in topics for partition in topic.partitions}


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
