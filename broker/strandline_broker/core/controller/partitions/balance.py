"""Automatic return of leaderships to their preferred replicas.

A broker that was away leads nothing when it is back in sync. While the cluster is quiet, the
controller checks each broker from time to time. If the broker lacks more than a percentage of the
partitions that prefer it, it gets those that it can lead. One batch moves a limited number: moving
everything at once, or during a failure, would cost more than it gains. The elections are as clean
as those on request (I-48).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    AnyRecord,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.leadership import preferred_leader, why_not
from strandline_proto.ids import BrokerId, MetadataOffset


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    enabled: bool
    interval_s: float
    percentage: int
    """Percentage of the partitions that prefer a broker which other brokers may lead."""


@dataclass(frozen=True, slots=True)
class Balanced:
    moved: int
    left: int
    """Number of partitions that could still be given back."""


class Quiet:
    """The time since a broker last registered, left or was fenced; soft state of one controller's
    life.

    Times are milliseconds of a monotonic clock.
    """

    def __init__(self, session_ms: int, now_ms: int) -> None:
        self._session_ms = session_ms
        self._since_ms = now_ms

    def on_commit(self, record: AnyRecord, now_ms: int) -> None:
        match record:
            case RegisterBrokerRecord():
                self.on_unrest(now_ms)
            case BrokerRegistrationChangeRecord(fenced=fenced, in_controlled_shutdown=stopping):
                if fenced or stopping:
                    self.on_unrest(now_ms)
            case _:
                pass

    def on_unrest(self, now_ms: int) -> None:
        self._since_ms = now_ms

    def missing_ms(self, now_ms: int) -> int:
        """Time until a whole session was quiet, if nothing more happens; 0: it was."""
        return max(0, self._since_ms + self._session_ms - now_ms)


def decide_balance(
    state: ControllerState,
    applied: Mapping[BrokerId, MetadataOffset],
    *,
    percentage: int,
    limit: int,
) -> Decision[Balanced]:
    """Give at most `limit` partitions back.

    A broker that has not reported the last change of a partition as applied does not get it: a
    broker that receives nothing would not lead either (I-94).
    """
    preferring = state.index.load.leading
    elsewhere = list(state.those(state.index.led_elsewhere))
    lacking = Counter(preferred_leader(p) for p in elsewhere)
    starved = {b for b in lacking if lacking[b] * 100 > preferring[b] * percentage}
    changes = [
        PartitionChangeRecord(topic_id=p.topic_id, partition=p.index, leader=preferred_leader(p))
        for p in elsewhere
        if preferred_leader(p) in starved
        and applied.get(preferred_leader(p), -1) >= p.changed_at
        and why_not(state, p, preferred_leader(p)) is None
    ]
    moved = changes[:limit]
    return Decision(moved, answer=Balanced(len(moved), left=len(changes) - len(moved)))
