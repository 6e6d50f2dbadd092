"""The leader's knowledge of one follower.

The value is replaced as a whole at each fetch. Its end offset, its incarnation and its caught-up
time therefore always belong to the same fetch (I-24, P-8).
"""

from typing import NamedTuple

from strandline_proto.errors import StaleBrokerEpoch, UnknownLeaderEpoch
from strandline_proto.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset


class RemoteReplica(NamedTuple):
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    log_end_offset: Offset | None = None
    """End of the follower's log, unknown until the first fetch in this leader epoch. Under
    flush.policy=always: the durable end (P-75).
    """
    log_start_offset: Offset | None = None
    fetched_ms: int = 0
    leader_end_when_fetched: Offset | None = None
    caught_up_ms: int | None = None
    """The last moment at which it is known to have held the leader's whole log; None: never."""

    def after_fetch(
        self,
        *,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end: Offset,
        now_ms: int,
    ) -> "RemoteReplica":
        """The value after a fetch: the follower asked for `fetch_offset`, so it holds everything
        before. The leader's log ended at `leader_end`.
        """
        before = self if broker_epoch == self.broker_epoch else RemoteReplica()
        caught_up_ms = before.caught_up_ms
        if fetch_offset >= leader_end:
            caught_up_ms = now_ms
        elif (
            before.leader_end_when_fetched is not None
            and fetch_offset >= before.leader_end_when_fetched
        ):
            # It now has the leader's whole log as of its previous fetch, so it was level at that
            # time. Under steady appends a follower is never level when it fetches; this rule keeps
            # it in sync (I-25, P-56).
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
        """The value after a sign of life at `at_ms`, when the follower held the leader's
        whole log.
        """
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
    """Refuse a fetch of an incarnation that does not count (P-73, I-90).

    `counted` is the incarnation in the maximal ISR, `eligible` the unfenced one, `seen` the one of
    the last fetch. A broker that is neither counted nor eligible may fetch under an unknown epoch:
    what it reports does not count.
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
