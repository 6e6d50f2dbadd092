"""Offsets of open transactions: staged by their records, and decided by the transaction's marker.

A staged offset shows in no answer before a commit marker is replayed (I-146). Only then may it
become the committed offset of its partition. It loses to an offset whose record is above its own,
whatever the order of the markers (P-103): compaction keeps the highest record too. So each write of
a committed offset overtakes the staged ones below it, which from then on only count as undecided.
An abort marker drops all offsets of its producer, and a tombstone drops all those of its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from strandline_broker.core.groups.records.offset_records import (
        OffsetCommitKey,
        OffsetCommitValue,
    )
    from strandline_proto.ids import Offset, ProducerId


class Staged(NamedTuple):
    record_offset: Offset
    value: OffsetCommitValue
    is_overtaken: bool = False
    """True if the partition's committed offset is from a record above this one."""


class PendingOffsets:
    def __init__(self) -> None:
        self._staged: dict[str, dict[tuple[str, int], dict[ProducerId, Staged]]] = {}
        """By group, then by topic name and partition, then by producer."""
        self._keys: dict[ProducerId, dict[OffsetCommitKey, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._staged)

    @property
    def groups(self) -> Collection[str]:
        """The groups with staged offsets."""
        return self._staged.keys()

    def groups_of(self, producer_id: ProducerId) -> set[str]:
        """The groups whose offsets the producer's open transaction contains."""
        return {key.group for key in self._keys.get(producer_id, ())}

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """True if an open transaction contains an offset of the partition (I-147)."""
        return (topic, partition) in self._staged.get(group_id, ())

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, tuple[Staged, ...]]]:
        """Topic, partition and staged offsets, sorted by topic and partition."""
        for (topic, partition), staged in sorted(self._staged.get(group_id, {}).items()):
            yield topic, partition, tuple(each for _, each in sorted(staged.items()))

    # The fold of the log

    def stage(
        self,
        producer_id: ProducerId,
        record_offset: Offset,
        key: OffsetCommitKey,
        value: OffsetCommitValue,
    ) -> None:
        """Replay a record of an open transaction."""
        places = self._staged.setdefault(key.group, {})
        places.setdefault((key.topic, key.partition), {})[producer_id] = Staged(
            record_offset, value
        )
        self._keys.setdefault(producer_id, {})[key] = None

    def overtake(self, key: OffsetCommitKey, record_offset: Offset) -> None:
        """Replay the write of a committed offset, which wins over those staged below it."""
        staged = self._staged.get(key.group, {}).get((key.topic, key.partition), {})
        for producer_id, each in staged.items():
            if each.record_offset < record_offset:
                staged[producer_id] = each._replace(is_overtaken=True)

    def drop(self, key: OffsetCommitKey) -> None:
        """Replay a tombstone."""
        places = self._staged.get(key.group, {})
        for producer_id in places.pop((key.topic, key.partition), ()):
            del self._keys[producer_id][key]
            if not self._keys[producer_id]:
                del self._keys[producer_id]
        if not places:
            self._staged.pop(key.group, None)

    def end(self, producer_id: ProducerId) -> list[tuple[OffsetCommitKey, Staged]]:
        """Replay a marker: remove and return what the producer has staged."""
        ended: list[tuple[OffsetCommitKey, Staged]] = []
        for key in self._keys.pop(producer_id, ()):
            places = self._staged[key.group]
            staged = places[key.topic, key.partition]
            ended.append((key, staged.pop(producer_id)))
            if not staged:
                del places[key.topic, key.partition]
            if not places:
                del self._staged[key.group]
        return ended
