"""The groups in the log of one shard, and the only way in which they change.

Every record sets or removes one entry, whatever the table contains (I-139). A group is known by its
own record, or by an offset only. The latter is a simple group, whose consumers divide the
partitions themselves.

An offset in a transactional batch is staged until the marker of its producer (I-146).

Classic groups have a volatile part too. Decisions change it, `replay` never does, and an unload
drops it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.classic.group import from_value
from strandline_broker.core.groups.consumer.consumer import ConsumerGroup
from strandline_broker.core.groups.pending_offsets import PendingOffsets
from strandline_broker.core.groups.records.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from strandline_broker.core.groups.records.consumer_records import ConsumerGroupPartitionMetadataKey
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from strandline_broker.core.groups.classic.group import ClassicGroup
    from strandline_broker.core.groups.records.codec import GroupKey, GroupValue
    from strandline_proto.ids import Offset, ProducerId


class GroupTable:
    def __init__(self) -> None:
        self.consumer: dict[str, ConsumerGroup] = {}
        self.classic: dict[str, GroupMetadataValue] = {}
        self.offsets: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}
        """Committed offsets by group, topic name and partition."""
        self.pending = PendingOffsets()
        self.live: dict[str, ClassicGroup] = {}
        """Volatile: the classic groups with members or handed-out ids, as their members know
        them.
        """

    def is_known(self, group_id: str) -> bool:
        return any(group_id in kind for kind in self._kinds())

    def group_ids(self) -> tuple[str, ...]:
        return tuple(sorted({group_id for kind in self._kinds() for group_id in kind}))

    def _kinds(self) -> tuple[Collection[str], ...]:
        return self.consumer, self.classic, self.live, self.offsets, self.pending.groups

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of that id, as its members or else its record know it."""
        group = self.live.get(group_id)
        if group is None and (value := self.classic.get(group_id)) is not None:
            group = from_value(group_id, value)
            self.keep(group)
        return group

    def keep(self, group: ClassicGroup) -> None:
        """Keep what a decision has made of a classic group."""
        if group.is_void:
            self.live.pop(group.group_id, None)
        else:
            self.live[group.group_id] = group

    def offset(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        return self.offsets.get(group_id, {}).get(topic, {}).get(partition)

    def offsets_of(self, group_id: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        """The offsets of a group, sorted by topic and partition."""
        for topic, partitions in sorted(self.offsets.get(group_id, {}).items()):
            for partition, value in sorted(partitions.items()):
                yield topic, partition, value

    def replay(self, offset: Offset, key: GroupKey, value: GroupValue | None) -> None:
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self._replay_offset(offset, key, value)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            if value is None:
                self.classic.pop(key.group, None)
            else:
                self.classic[key.group] = value
        elif not isinstance(key, ConsumerGroupPartitionMetadataKey):
            group = self.consumer.get(key.group) or ConsumerGroup(key.group)
            group.replay(key, value)
            if group.is_void:
                self.consumer.pop(key.group, None)
            else:
                self.consumer[key.group] = group

    def replay_transactional(
        self, offset: Offset, key: GroupKey, value: GroupValue | None, producer_id: ProducerId
    ) -> None:
        """Replay a record of a producer's open transaction. Only offsets are staged."""
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self.pending.stage(producer_id, offset, key, value)
        else:
            self.replay(offset, key, value)

    def replay_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Replay the end of the producer's transaction."""
        for key, staged in self.pending.end(producer_id):
            if is_commit and not staged.is_overtaken:
                self._replay_offset(staged.record_offset, key, staged.value)

    def _replay_offset(
        self, offset: Offset, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        if value is not None:
            topics = self.offsets.setdefault(key.group, {})
            topics.setdefault(key.topic, {})[key.partition] = value
            if self.pending:
                self.pending.overtake(key, offset)
            return
        if self.pending:
            self.pending.drop(key)
        topics = self.offsets.get(key.group, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is not None and not partitions:
            del topics[key.topic]
            if not topics:
                del self.offsets[key.group]
