"""Which leader epochs somebody has surely led (I-53).

An election is a decision of the controller; its leader may have died before it heard of it. Where a
leader has answered that it leads, it may have committed records, and a disk that was in sync then
knows the epoch. So disks that all know less are not what they were, an older copy for instance, and
are no witnesses of what was committed.

Soft state: of a partition whose leader has changed before this controller heard an answer of it,
nothing is known.
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
    """The newest epoch of an earlier leader that had answered; None: nobody knows."""
    present: PartitionRegistration
    """As it was when its present leader was elected."""


class LedEpochs:
    def __init__(self) -> None:
        self._led: dict[tuple[TopicId, int], _Led] = {}

    def on_found(self, partition: PartitionRegistration) -> None:
        """The controller has started, and the partition is from before."""
        self._led[partition.topic_id, partition.index] = _Led(None, partition)

    def on_created(self, partition: PartitionRegistration) -> None:
        self._led[partition.topic_id, partition.index] = _Led(UNKNOWN_EPOCH, partition)

    def on_leader(self, partition: PartitionRegistration, applied: Applied) -> None:
        """It has another leader, none, or the same in another epoch; what brokers have answered up
        to now was of the leader before.
        """
        key = (partition.topic_id, partition.index)
        known = self._led.get(key)
        surely = None if known is None else known.surely
        if known is not None and applied.election_of(known.present):
            surely = known.present.leader_epoch
        self._led[key] = _Led(surely, partition)

    def surely_led(self, partition: PartitionRegistration) -> LeaderEpoch | None:
        """The newest epoch that a leader of the partition, which has none now, has answered for;
        None: nobody knows.
        """
        known = self._led.get((partition.topic_id, partition.index))
        return None if known is None or partition.leader != NO_LEADER else known.surely

    def forget_topic(self, topic_id: TopicId) -> None:
        for key in [key for key in self._led if key[0] == topic_id]:
            del self._led[key]
