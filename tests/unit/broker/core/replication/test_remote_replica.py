"""What a leader concludes from a follower's fetches (I-25), and whose fetches count (P-73)."""

from strandline_broker.core.replication.remote_replica import RemoteReplica
from strandline_proto.ids import BrokerEpoch, Offset


def fetched(
    replica: RemoteReplica, offset: int, *, end: int, at_ms: int, broker_epoch: int = 1
) -> RemoteReplica:
    return replica.after_fetch(
        broker_epoch=BrokerEpoch(broker_epoch),
        fetch_offset=Offset(offset),
        log_start_offset=Offset(0),
        leader_end=Offset(end),
        now_ms=at_ms,
    )


def blank(*, caught_up_ms: int | None = None) -> RemoteReplica:
    return RemoteReplica(broker_epoch=BrokerEpoch(1), caught_up_ms=caught_up_ms)


def test_a_fetch_at_the_end_of_the_log_is_caught_up_now() -> None:
    assert fetched(blank(), 5, end=5, at_ms=70).caught_up_ms == 70


def test_a_fetch_of_what_was_the_end_last_time_was_caught_up_last_time() -> None:
    once = fetched(blank(), 0, end=5, at_ms=10)
    assert once.caught_up_ms is None
    assert fetched(once, 5, end=8, at_ms=90).caught_up_ms == 10
    assert fetched(once, 4, end=8, at_ms=90).caught_up_ms is None


def test_being_caught_up_last_time_takes_no_later_moment_back() -> None:
    once = fetched(blank(caught_up_ms=50), 0, end=5, at_ms=10)
    assert fetched(once, 5, end=8, at_ms=90).caught_up_ms == 50


def test_another_incarnation_begins_with_nothing() -> None:
    once = fetched(blank(), 5, end=5, at_ms=10)
    reborn = fetched(once, 5, end=8, at_ms=20, broker_epoch=2)
    assert reborn.caught_up_ms is None, "I-90"
    assert reborn.broker_epoch == 2


def test_a_replica_that_never_was_level_is_not_caught_up_at_the_beginning_of_time() -> None:
    assert not blank().was_caught_up_within(100, now_ms=0)
    assert blank(caught_up_ms=0).was_caught_up_within(100, now_ms=100)
    assert not blank(caught_up_ms=0).was_caught_up_within(100, now_ms=101)
