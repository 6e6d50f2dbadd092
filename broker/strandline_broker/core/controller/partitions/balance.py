"""Leaders come back to their preferred replicas by themselves.

A broker that was away leads nothing when it is back in sync. From time to time, while the cluster
is quiet, each broker that lacks more than a percentage of the partitions that prefer it is given
those that it can take, a limited number in one batch: a switch-over of everything at once, or in
the middle of a failure, would cost more than it mends. The elections are as clean as those by
command (I-48).
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
    """Of the partitions that prefer a broker: so many may be led by others."""


@dataclass(frozen=True, slots=True)
class Balanced:
    moved: int
    left: int
    """How many partitions could be given back after these."""


class Quiet:
    """How long no broker has come, gone or been fenced; soft state of one controller's life.

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
        """How long nothing more may happen until a whole session was quiet; 0: it was."""
        return max(0, self._since_ms + self._session_ms - now_ms)


def decide_balance(
    state: ControllerState,
    applied: Mapping[BrokerId, MetadataOffset],
    *,
    percentage: int,
    limit: int,
) -> Decision[Balanced]:
    """Give at most `limit` partitions back.

    Not to a broker that has not said that it has applied the last change of the partition: one that
    hears nothing would lead nothing either (I-94).
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
