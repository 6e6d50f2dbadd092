"""The leader epochs in which a broker surely led (I-53).

An election is a decision of the controller; its leader may have died before it learned of it. A
leader that has confirmed its role may have committed records, and a disk that was in sync then
contains the epoch. If all disks contain only older epochs, they have changed, for instance to an
older copy. They then prove nothing about the committed records.

This is soft state. If a partition's leader has changed before this controller received an answer,
nothing is known of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_proto.ids import NO_LEADER, UNKNOWN_EPOCH, LeaderEpoch

if TYPE_CHECKING:
    from strandline_broker.core.controller.brokers.applied_offsets import Applied
    from strandline_broker.core.controller.log.state import PartitionRegistration
    from strandline_proto.ids import TopicId


@dataclass(frozen=True, slots=True)
class _Led:
    surely: LeaderEpoch | None
    """The newest epoch of an earlier leader that had answered; None: unknown."""
    present: PartitionRegistration
    """The partition as it was when its present leader was elected."""


class LedEpochs:
    def __init__(self) -> None:
        self._led: dict[tuple[TopicId, int], _Led] = {}

    def on_found(self, partition: PartitionRegistration) -> None:
        """Add a partition from before the controller's start."""
        self._led[partition.topic_id, partition.index] = _Led(None, partition)

    def on_created(self, partition: PartitionRegistration) -> None:
        self._led[partition.topic_id, partition.index] = _Led(UNKNOWN_EPOCH, partition)

    def on_leader(self, partition: PartitionRegistration, applied: Applied) -> None:
        """Record another leader, none, or the same one in another epoch; earlier answers of brokers
        concern the previous leader.
        """
        key = (partition.topic_id, partition.index)
        known = self._led.get(key)
        surely = None if known is None else known.surely
        if known is not None and applied.election_of(known.present):
            surely = known.present.leader_epoch
        self._led[key] = _Led(surely, partition)

    def surely_led(self, partition: PartitionRegistration) -> LeaderEpoch | None:
        """The newest epoch that a leader of the partition, which has none now, has confirmed; None:
        unknown.
        """
        known = self._led.get((partition.topic_id, partition.index))
        return None if known is None or partition.leader != NO_LEADER else known.surely

    def forget_topic(self, topic_id: TopicId) -> None:
        for key in [key for key in self._led if key[0] == topic_id]:
            del self._led[key]
