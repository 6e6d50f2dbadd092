"""One follower as its leader knows it.

The value is replaced as a whole at each fetch, so that its end offset, its incarnation and the time
it was caught up are always of one and the same fetch (I-24, P-8).
"""

from typing import NamedTuple

from strandline_proto.errors import StaleBrokerEpoch, UnknownLeaderEpoch
from strandline_proto.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset


class RemoteReplica(NamedTuple):
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    log_end_offset: Offset | None = None
    """Unknown until the first fetch in this leader epoch. Under flush.policy=always: the durable
    end (P-75).
    """
    log_start_offset: Offset | None = None
    fetched_ms: int = 0
    leader_end_when_fetched: Offset | None = None
    caught_up_ms: int | None = None
    """The last moment at which it is known to have held all that the leader held; None: never."""

    def after_fetch(
        self,
        *,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end: Offset,
        now_ms: int,
    ) -> "RemoteReplica":
        """It asked for `fetch_offset`, so it holds all before that; the leader's log ended at
        `leader_end`.
        """
        before = self if broker_epoch == self.broker_epoch else RemoteReplica()
        caught_up_ms = before.caught_up_ms
        if fetch_offset >= leader_end:
            caught_up_ms = now_ms
        elif (
            before.leader_end_when_fetched is not None
            and fetch_offset >= before.leader_end_when_fetched
        ):
            # It now has all that the leader had when it last asked, so it was level at that time.
            # Under steady appends a follower is never level when it asks, and this is how it stays
            # in sync (I-25, P-56).
            caught_up_ms = max(before.fetched_ms, -1 if caught_up_ms is None else caught_up_ms)
        return RemoteReplica(
            broker_epoch=broker_epoch,
            log_end_offset=fetch_offset,
            log_start_offset=log_start_offset,
            fetched_ms=now_ms,
            leader_end_when_fetched=leader_end,
            caught_up_ms=caught_up_ms,
        )

    def level_at(self, at_ms: int) -> "RemoteReplica":
        """It was heard then, and held all that the leader held."""
        known_ms = at_ms if self.caught_up_ms is None else self.caught_up_ms
        return self._replace(caught_up_ms=max(at_ms, known_ms))

    def was_caught_up_within(self, lag_ms_max: int, *, now_ms: int) -> bool:
        return self.caught_up_ms is not None and now_ms - self.caught_up_ms <= lag_ms_max


def check_incarnation(
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    *,
    counted: BrokerEpoch | None,
    eligible: BrokerEpoch | None,
    seen: BrokerEpoch,
    where: str,
) -> None:
    """Refuse a fetch that is not of the incarnation that counts (P-73, I-90).

    `counted` is the one in the maximal ISR, `eligible` the unfenced one, `seen` the one that last
    fetched. A broker that is neither counted nor eligible may fetch under an epoch that is not
    known here: nothing counts what it reports.
    """
    if broker_epoch == seen == eligible == counted:
        return
    newest = max(e for e in (counted, eligible, seen) if e is not None)
    if broker_epoch < newest:
        raise StaleBrokerEpoch(
            f"{where}: broker {broker_id} of epoch {broker_epoch} has been replaced by"
            f" epoch {newest}"
        )
    known = eligible if counted is None else counted
    if known is not None and broker_epoch != known:
        raise UnknownLeaderEpoch(
            f"{where}: broker {broker_id} of epoch {broker_epoch} is newer than epoch {known},"
            " which its leader knows; retry"
        )
