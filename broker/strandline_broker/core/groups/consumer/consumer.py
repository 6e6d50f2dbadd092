"""One group of the consumer protocol (KIP-848), as given by its records.

Every kind of record has its own table. A value sets an entry and a tombstone removes it, whatever
the table contains. A group is therefore the same, whatever compaction has left of its log (I-139).

Two indexes follow from the tables: the holder of each partition, and the member of each instance
id. An index entry is removed only with the member that it names, since it may name another by then
(P-107).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.consumer.current_assignment import (
    NOTHING,
    Current,
    MemberState,
    from_value,
)
from strandline_broker.core.groups.overlay import Overlay
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.effects import Effect
    from strandline_broker.core.groups.records.codec import GroupKey, GroupValue
    from strandline_proto.ids import TopicId

_K = TypeVar("_K")
_V = TypeVar("_V")


class Subscription(NamedTuple):
    names: tuple[str, ...]
    regex: str
    """The regular expression; empty: none."""


def subscription_of(member: ConsumerGroupMemberMetadataValue) -> Subscription:
    return Subscription(member.subscribed_topic_names, member.subscribed_topic_regex or "")


class ConsumerGroup:
    """A group; only `replay` changes it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.metadata: ConsumerGroupMetadataValue | None = None
        self.target_metadata: ConsumerGroupTargetAssignmentMetadataValue | None = None
        self.members: MutableMapping[str, ConsumerGroupMemberMetadataValue] = {}
        self.targets: MutableMapping[str, PartitionSets] = {}
        self.currents: MutableMapping[str, Current] = {}
        self.regexes: MutableMapping[str, ConsumerGroupRegularExpressionValue] = {}
        self.holders: MutableMapping[tuple[TopicId, int], str] = {}
        self.static_members: MutableMapping[str, str] = {}
        self.subscriptions: MutableMapping[Subscription, int] = {}
        """Number of members with each subscription."""
        self.waiting: MutableMapping[str, None] = {}
        """Members whose target has partitions that other members hold."""

    @property
    def epoch(self) -> int:
        return 0 if self.metadata is None else self.metadata.epoch

    @property
    def metadata_hash(self) -> int:
        return 0 if self.metadata is None else self.metadata.metadata_hash

    @property
    def assignment_epoch(self) -> int:
        return 0 if self.target_metadata is None else self.target_metadata.assignment_epoch

    @property
    def assigned_at_ms(self) -> int:
        """Wall-clock time of the assignment; for an empty group, when it became empty."""
        return 0 if self.target_metadata is None else self.target_metadata.assignment_timestamp_ms

    @property
    def is_void(self) -> bool:
        """True if no record of the group is left."""
        tables = (self.members, self.targets, self.currents, self.regexes)
        return self.metadata is None and self.target_metadata is None and not any(tables)

    @property
    def state(self) -> str:
        """The group's state, by Kafka's names."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        for member_id in self.members:
            current = self.current(member_id)
            if current.state is not MemberState.STABLE or (
                current.epoch != self.assignment_epoch and not current.is_absent
            ):
                return "Reconciling"
        return "Stable"

    def current(self, member_id: str) -> Current:
        return self.currents.get(member_id, NOTHING)

    def target(self, member_id: str) -> PartitionSets:
        return self.targets.get(member_id, {})

    def names_of(self, subscription: Subscription) -> set[str]:
        """Topics by name, and those that the regular expression matched."""
        names = set(subscription.names)
        if subscription.regex in self.regexes:
            names.update(self.regexes[subscription.regex].topics)
        return names

    def subscribed_names(self) -> set[str]:
        """Topics to which any member subscribes."""
        return {name for each in self.subscriptions for name in self.names_of(each)}

    def subscribed_regexes(self) -> set[str]:
        return {each.regex for each in self.subscriptions if each.regex}

    def tombstones(self) -> tuple[Record, ...]:
        """A tombstone for every key that a group without members may have in the log (I-138)."""
        return (
            Record(ConsumerGroupTargetAssignmentMetadataKey(self.group_id), None),
            *(
                Record(ConsumerGroupRegularExpressionKey(self.group_id, regex), None)
                for regex in sorted(self.regexes)
            ),
            Record(ConsumerGroupPartitionMetadataKey(self.group_id), None),
            Record(ConsumerGroupMetadataKey(self.group_id), None),
        )

    # The fold of its records

    def replay(self, key: GroupKey, value: GroupValue | None) -> None:
        if isinstance(key, ConsumerGroupMetadataKey):
            assert value is None or isinstance(value, ConsumerGroupMetadataValue)
            self.metadata = value
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
            self.target_metadata = value
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
            self._replay_member(key.member_id, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
            self._replay_target(key.member_id, value)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
            self._replay_current(key.member_id, value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            assert value is None or isinstance(value, ConsumerGroupRegularExpressionValue)
            _put(self.regexes, key.regex, value)

    def _replay_member(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        before = self.members.get(member_id)
        if before is not None:
            _count(self.subscriptions, subscription_of(before), -1)
            if before.instance_id is not None:
                _remove_own(self.static_members, before.instance_id, member_id)
        _put(self.members, member_id, value)
        if value is not None:
            _count(self.subscriptions, subscription_of(value), 1)
            if value.instance_id is not None:
                self.static_members[value.instance_id] = member_id

    def _replay_target(
        self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = {
                topic.topic_id: tuple(sorted(topic.partitions)) for topic in value.topics
            }

    def _replay_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        for place in self.current(member_id).held():
            _remove_own(self.holders, place, member_id)
        if value is None:
            self.currents.pop(member_id, None)
            self.waiting.pop(member_id, None)
            return
        current = from_value(value)
        self.currents[member_id] = current
        for place in current.held():
            self.holders[place] = member_id
        if current.state is MemberState.UNRELEASED_PARTITIONS:
            self.waiting[member_id] = None
        else:
            self.waiting.pop(member_id, None)


class Draft(ConsumerGroup):
    """A group during one decision, and the records that make it so. The group itself is unchanged
    until these are replayed.
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self.group_id = group.group_id
        self.metadata = group.metadata
        self.target_metadata = group.target_metadata
        self.members = Overlay(group.members)
        self.targets = Overlay(group.targets)
        self.currents = Overlay(group.currents)
        self.regexes = Overlay(group.regexes)
        self.holders = Overlay(group.holders)
        self.static_members = Overlay(group.static_members)
        self.subscriptions = Overlay(group.subscriptions)
        self.waiting = Overlay(group.waiting)
        self.records: list[Record] = []
        self.effects: list[Effect] = []
        self.freed: set[tuple[TopicId, int]] = set()
        """Partitions that a member has ceased to hold; another may hold them by now."""
        self.changed: set[str] = set()
        """Members whose answer or target has changed."""

    def write(self, key: GroupKey, value: GroupValue | None) -> None:
        self.records.append(Record(key, value))
        self.replay(key, value)


def _count(counts: MutableMapping[_K, int], key: _K, by: int) -> None:
    count = counts.get(key, 0) + by
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)


def _put(table: MutableMapping[str, _V], key: str, value: _V | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _remove_own(index: MutableMapping[_K, str], key: _K, member_id: str) -> None:
    if index.get(key) == member_id:
        del index[key]
