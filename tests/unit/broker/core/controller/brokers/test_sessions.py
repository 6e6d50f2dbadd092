"""Sessions: touched on arrival, swept oldest first, and never expired by the controller's own
stall.
"""

from strandline_broker.core.controller.brokers.sessions import Sessions
from strandline_proto.ids import BrokerEpoch, BrokerId

B1, B2 = BrokerId(1), BrokerId(2)
E1, E2 = BrokerEpoch(10), BrokerEpoch(20)


def sessions_of(*brokers: tuple[BrokerId, BrokerEpoch, int]) -> Sessions:
    sessions = Sessions(1000)
    for broker_id, epoch, at_ms in brokers:
        sessions.on_registered(broker_id, epoch, at_ms)
    return sessions


def test_a_session_ends_exactly_a_session_after_it_was_last_heard() -> None:
    sessions = sessions_of((B1, E1, 0))
    sessions.on_heard(B1, E1, 500)
    assert not sessions.is_expired(B1, E1, 1499)
    assert sessions.is_expired(B1, E1, 1500)
    assert sessions.oldest_expired(1499) is None
    assert sessions.oldest_expired(1500) == (B1, E1)


def test_the_longest_silent_is_swept_first() -> None:
    sessions = sessions_of((B1, E1, 200), (B2, E2, 100))
    assert sessions.oldest_expired(5000) == (B2, E2)
    sessions.forget(B2, E2)
    assert sessions.oldest_expired(5000) == (B1, E1)


def test_an_older_incarnation_keeps_nobody_alive() -> None:
    sessions = sessions_of((B1, E2, 0))
    sessions.on_heard(B1, E1, 900)
    assert sessions.is_expired(B1, E2, 1000)


def test_an_older_incarnation_is_forgotten_without_harm_to_the_newer() -> None:
    sessions = sessions_of((B1, E2, 0))
    sessions.forget(B1, E1)
    sessions.shorten(B1, E1, to_ms=0, now_ms=0)
    assert sessions.is_alive(B1, 999)


def test_a_hint_shortens_a_session_and_never_lengthens_it() -> None:
    sessions = sessions_of((B1, E1, 0))
    sessions.shorten(B1, E1, to_ms=300, now_ms=100)
    assert sessions.is_expired(B1, E1, 400)
    sessions.shorten(B1, E1, to_ms=900, now_ms=100)
    assert sessions.is_expired(B1, E1, 400)
    sessions.on_heard(B1, E1, 399)
    assert not sessions.is_expired(B1, E1, 1398)


def test_an_inherited_session_gets_its_full_time_but_proves_no_life() -> None:
    sessions = Sessions(1000)
    sessions.inherit(B1, E1, 0)
    assert not sessions.is_alive(B1, 1)
    assert not sessions.is_expired(B1, E1, 999)
    assert sessions.is_expired(B1, E1, 1000)
    assert sessions.heard_ms(B1) is None
    sessions.on_heard(B1, E1, 5)
    assert sessions.is_alive(B1, 6)
    assert sessions.heard_ms(B1) == 5


def test_time_in_which_the_controller_was_stalled_counts_for_nobody() -> None:
    sessions = sessions_of((B1, E1, 0))
    assert sessions.on_sweep(100)
    assert not sessions.on_sweep(5000), "a sweep after a stall expires nobody"
    assert sessions.oldest_expired(5000) is None
    assert sessions.on_sweep(5100)
    assert sessions.oldest_expired(5899) is None
    assert sessions.oldest_expired(5900) == (B1, E1)


def test_who_was_heard_after_a_stall_is_given_no_time_back() -> None:
    """P-62: its heartbeat was read before the first sweep, and it died in the stall."""
    sessions = sessions_of((B1, E1, 0), (B2, E2, 0))
    assert sessions.on_sweep(100)
    sessions.on_heard(B1, E1, 4999)
    assert not sessions.on_sweep(5000)
    assert sessions.oldest_expired(5900) == (B2, E2)
    assert not sessions.is_expired(B1, E1, 5998)
    assert sessions.is_expired(B1, E1, 6000)


def test_a_gap_of_half_a_session_between_sweeps_is_no_stall() -> None:
    sessions = sessions_of((B1, E1, 0))
    assert sessions.on_sweep(600)
    assert sessions.on_sweep(1100)
    assert sessions.oldest_expired(1100) == (B1, E1)


def test_a_heartbeat_that_was_overtaken_counts_for_nothing() -> None:
    """It may come late over a stream that was given up, and say what has been taken back since."""
    sessions = Sessions(1000)
    sessions.on_heard(B1, E1, 0, number=2)
    assert sessions.is_overtaken(B1, E1, 1)
    assert not sessions.is_overtaken(B1, E1, 3)
    sessions.on_heard(B1, E1, 900, number=1)
    assert sessions.is_expired(B1, E1, 1000), "it has kept no session alive"
    sessions.forget(B1, E1)
    assert sessions.is_overtaken(B1, E1, 1), "the order outlasts a session"
    sessions.on_heard(B1, E1, 1000, number=1)
    assert not sessions.is_alive(B1, 1000)
    sessions.on_registered(B1, E2, 1100)
    assert not sessions.is_overtaken(B1, E2, 1), "a new incarnation counts anew"
