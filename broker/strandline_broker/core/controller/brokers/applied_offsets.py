"""The offsets of the controller's log that the brokers have applied, as far as they have reported.

This is soft state, from heartbeats and from the answers of the push stream. It decides three
things:

- When a controlled shutdown may end (I-84).
- Which leader does not know that it leads, although its heartbeats arrive (I-94).
- Which removals from an ISR a leader has applied (I-53). This uses answers only, because they name
  the partitions that a broker could not apply. An answer to a snapshot covers all partitions.

A push may concern thousands of partitions, and is answered when the last one is applied. Meanwhile
heartbeats report how many are applied, and a broker that makes progress is not overdue with the
others.
"""

from collections import deque
from collections.abc import Mapping, Set
from typing import NamedTuple

from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
from strandline_proto.ids import BrokerEpoch, BrokerId, MetadataOffset, TopicId


class _Progress(NamedTuple):
    partitions: int
    at_ms: int


class Applied:
    def __init__(self) -> None:
        self._offsets: dict[BrokerId, MetadataOffset] = {}
        self._epochs: dict[BrokerId, BrokerEpoch] = {}
        self._elections: dict[BrokerId, deque[tuple[MetadataOffset, int]]] = {}
        self._progress: dict[BrokerId, _Progress] = {}
        self._answered: dict[BrokerId, MetadataOffset] = {}
        self._not_applied: dict[BrokerId, set[tuple[TopicId, int]]] = {}

    @property
    def offsets(self) -> Mapping[BrokerId, MetadataOffset]:
        return self._offsets

    def behind(self, state: ControllerState, offset: MetadataOffset) -> list[BrokerId]:
        """Live brokers that have not reported the log up to `offset` as applied."""
        live = (b.broker_id for b in state.brokers.values() if not b.fenced)
        return sorted(b for b in live if self._offsets.get(b, -1) < offset)

    def on_registered(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """Record a new incarnation, which has applied nothing yet."""
        self._epochs[broker_id] = epoch
        self._offsets[broker_id] = MetadataOffset(-1)
        self._elections.pop(broker_id, None)
        self._progress.pop(broker_id, None)
        self._answered.pop(broker_id, None)
        self._not_applied.pop(broker_id, None)

    def by_leader_of(self, partition: PartitionRegistration) -> bool:
        """True if the partition's leader has reported its last change as applied."""
        leader = partition.leader
        if (partition.topic_id, partition.index) in self._not_applied.get(leader, ()):
            return False
        return self._answered.get(leader, -1) >= partition.changed_at

    def election_of(self, partition: PartitionRegistration) -> bool:
        """True if the partition's leader has reported that it took the role."""
        leader = partition.leader
        if (partition.topic_id, partition.index) in self._not_applied.get(leader, ()):
            return False
        return self._answered.get(leader, -1) >= partition.elected_at

    def on_answered(
        self,
        broker_id: BrokerId,
        epoch: BrokerEpoch,
        offset: MetadataOffset,
        *,
        failed: Set[tuple[TopicId, int]],
        full: bool,
    ) -> None:
        """Record that the broker has applied the log up to `offset`, except for the partitions
        `failed`. With `full` it has also applied everything that it had not applied before.
        """
        if self._epochs.get(broker_id) != epoch:
            return
        self._answered[broker_id] = max(offset, self._answered.get(broker_id, offset))
        if full:
            self._not_applied.pop(broker_id, None)
        if failed:
            self._not_applied.setdefault(broker_id, set()).update(failed)

    def on_applied(self, broker_id: BrokerId, epoch: BrokerEpoch, offset: MetadataOffset) -> bool:
        """Record a reported offset; True if it is higher than before."""
        if self._epochs.get(broker_id) != epoch or offset <= self._offsets[broker_id]:
            return False
        self._offsets[broker_id] = offset
        waiting = self._elections.get(broker_id)
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()
        return True

    def on_progress(
        self, broker_id: BrokerId, epoch: BrokerEpoch, partitions: int, now_ms: int
    ) -> None:
        """Record how many partitions the broker has applied in its life."""
        if self._epochs.get(broker_id) != epoch:
            return
        known = self._progress.get(broker_id)
        if partitions > (0 if known is None else known.partitions):
            self._progress[broker_id] = _Progress(partitions, now_ms)

    def progressed_ms(self, broker_id: BrokerId) -> int | None:
        """Time of the last report of another applied partition; None: never."""
        known = self._progress.get(broker_id)
        return None if known is None else known.at_ms

    def on_elected(self, broker_id: BrokerId, offset: MetadataOffset, now_ms: int) -> None:
        """Record that the batch that ends at `offset` made the broker a leader."""
        waiting = self._elections.setdefault(broker_id, deque())
        if not waiting or waiting[-1][0] < offset:
            waiting.append((offset, now_ms))

    def on_fenced(self, broker_id: BrokerId) -> None:
        """Record that the broker leads nothing any more."""
        self._elections.pop(broker_id, None)

    def overdue(self, now_ms: int, limit_ms: int) -> tuple[BrokerId, BrokerEpoch] | None:
        """The leader that is overdue for longest: for more than `limit_ms` it has neither applied
        its election nor another partition (I-94).
        """
        late = [
            (since_ms, broker_id)
            for broker_id in self._elections
            if (since_ms := self._overdue_since(broker_id, now_ms, limit_ms)) is not None
        ]
        if not late:
            return None
        _, broker_id = min(late)
        return broker_id, self._epochs[broker_id]

    def is_overdue(self, broker_id: BrokerId, now_ms: int, limit_ms: int) -> bool:
        return self._overdue_since(broker_id, now_ms, limit_ms) is not None

    def _overdue_since(self, broker_id: BrokerId, now_ms: int, limit_ms: int) -> int | None:
        waiting = self._elections.get(broker_id)
        if not waiting:
            return None
        since_ms = self._still_since(broker_id, waiting[0][1])
        return since_ms if now_ms - since_ms > limit_ms else None

    def _still_since(self, broker_id: BrokerId, elected_ms: int) -> int:
        progressed_ms = self.progressed_ms(broker_id)
        return elected_ms if progressed_ms is None else max(elected_ms, progressed_ms)

    def on_own_stall(self, stalled_ms: int, now_ms: int) -> None:
        """Record that the controller read no answers for that long; the time counts against no
        broker (P-62). Events since the stall's end count as of now at the latest.
        """

        def moved(at_ms: int) -> int:
            return min(at_ms + stalled_ms, now_ms)

        for broker_id, waiting in self._elections.items():
            self._elections[broker_id] = deque((o, moved(at_ms)) for o, at_ms in waiting)
        for broker_id, known in self._progress.items():
            self._progress[broker_id] = _Progress(known.partitions, moved(known.at_ms))
