"""Indexes of partitions for the decisions, so that none has to read all partitions.

Every change of a partition updates the indexes, which depend on the partitions only. Dicts replace
sets: their order is that of the controller's log, in every process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline_broker.core.controller.topics.assignment import Load
from strandline_proto.ids import NO_LEADER, BrokerId, TopicId

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import PartitionRegistration

Key = tuple[TopicId, int]
Keys = dict[Key, None]


@dataclass(slots=True)
class PartitionIndex:
    hosted: dict[BrokerId, Keys] = field(default_factory=dict)
    """Partitions of which a broker holds a replica, by the assignment."""
    leaderless: Keys = field(default_factory=dict)
    led_elsewhere: Keys = field(default_factory=dict)
    """Partitions without a leader, or with one that is not the preferred replica."""
    remembering: Keys = field(default_factory=dict)
    """Partitions with last known eligible leader replicas (I-53)."""
    moving: Keys = field(default_factory=dict)
    """Partitions with a reassignment under way."""
    load: Load = field(default_factory=Load)
    """Load of the brokers by all assignments."""

    def put(self, old: PartitionRegistration | None, new: PartitionRegistration) -> None:
        """Replace `old`, which is None for a new partition, by `new`."""
        key = (new.topic_id, new.index)
        if old is None or old.replicas != new.replicas:
            if old is not None:
                self._unassign(key, old)
            for broker_id in new.replicas:
                self.hosted.setdefault(broker_id, {})[key] = None
            self.load.add(new.replicas)
        _keep(self.leaderless, key, new.leader == NO_LEADER)
        _keep(self.led_elsewhere, key, new.leader != new.replicas[0])
        _keep(self.remembering, key, new.last_known_elr != ())
        _keep(self.moving, key, new.original != ())

    def remove(self, old: PartitionRegistration) -> None:
        key = (old.topic_id, old.index)
        self._unassign(key, old)
        for keys in (self.leaderless, self.led_elsewhere, self.remembering, self.moving):
            keys.pop(key, None)

    def _unassign(self, key: Key, old: PartitionRegistration) -> None:
        for broker_id in old.replicas:
            del self.hosted[broker_id][key]
            if not self.hosted[broker_id]:
                del self.hosted[broker_id]
        self.load.remove(old.replicas)


class LaterIndex(PartitionIndex):
    """An index that equals another one; `carry_out` alone passes the changes on to it."""

    __slots__ = ("_changes", "_index")

    def __init__(self, index: PartitionIndex) -> None:
        super().__init__(
            index.hosted,
            index.leaderless,
            index.led_elsewhere,
            index.remembering,
            index.moving,
            index.load,
        )
        self._index = index
        self._changes: list[tuple[PartitionRegistration | None, PartitionRegistration | None]] = []

    def put(self, old: PartitionRegistration | None, new: PartitionRegistration) -> None:
        self._changes.append((old, new))

    def remove(self, old: PartitionRegistration) -> None:
        self._changes.append((old, None))

    def carry_out(self) -> PartitionIndex:
        for old, new in self._changes:
            if new is not None:
                self._index.put(old, new)
            elif old is not None:
                self._index.remove(old)
        return self._index


def _keep(keys: Keys, key: Key, holds: bool) -> None:
    if holds:
        keys[key] = None
    else:
        keys.pop(key, None)
