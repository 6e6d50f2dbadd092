"""The ring of a server's events: nothing is stored without a watcher, and never without a bound."""

from strandline_broker.hosts.common.events import KEPT_MAX, RECENT_MAX, Events
from support.hand_clock import HandClock


def numbers(events: Events, after: int, limit: int = RECENT_MAX) -> tuple[int, list[int]]:
    lost, found = events.since(after, limit)
    return lost, [event.number for event in found]


def test_an_event_without_a_watcher_is_dropped() -> None:
    events = Events(HandClock())
    events.note("dropped")
    assert (events.last_number, list(events.kept)) == (0, [])
    events.watched()
    assert numbers(events, 0) == (0, [])


def test_a_watcher_takes_each_event_once_in_order() -> None:
    events = Events(HandClock(now_s=7))
    events.watched()
    events.note("a")
    events.note("b")
    assert events.since(0, 9)[1][0] == (1, 7000, "a")
    assert numbers(events, 0, limit=1) == (0, [1])
    assert numbers(events, 1) == (0, [2])
    assert numbers(events, 2) == (0, [])


def test_a_slow_watcher_learns_how_many_events_it_has_lost() -> None:
    events = Events(HandClock())
    events.watched()
    for _ in range(RECENT_MAX + 5):
        events.note("x")
    lost, found = numbers(events, 2)
    assert (lost, found[0], found[-1]) == (3, 6, RECENT_MAX + 5)


def test_kept_events_stay_for_later_watchers_and_their_number_is_bounded() -> None:
    events = Events(HandClock())
    for _ in range(KEPT_MAX + 1):
        events.keep("cut")
    assert [event.number for event in events.kept] == [*range(2, KEPT_MAX + 2)]
    events.watched()
    events.keep("cut")
    assert numbers(events, KEPT_MAX + 1) == (0, [KEPT_MAX + 2])


def test_the_last_watcher_that_leaves_empties_the_ring() -> None:
    events = Events(HandClock())
    told: list[bool] = []
    events.on_watched.append(told.append)
    events.watched()
    events.watched()
    events.note("x")
    events.unwatched()
    assert numbers(events, 0) == (0, [1])
    events.unwatched()
    assert (events.is_watched, numbers(events, 0)) == (False, (1, []))
    assert told == [True, False]
