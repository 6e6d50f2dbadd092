"""Producers that wait: answered once, and dropped at a cost that their number does not raise."""

from strandline_broker.hosts.replica.purgatory import AckPurgatory, AckWaiter, ProduceOutcome
from strandline_proto.errors import NotLeaderOrFollower, RequestTimedOut

LATE = RequestTimedOut("late")


def waiting(purgatory: AckPurgatory, count: int) -> tuple[list[AckWaiter], list[ProduceOutcome]]:
    told: list[ProduceOutcome] = []
    outcome = ProduceOutcome(appended=True)
    return [purgatory.add(n + 1, outcome, told.append) for n in range(count)], told


def test_those_that_give_up_are_dropped_together() -> None:
    """One look at all for each is quadratic: 20,000 cost minutes of the event loop."""
    purgatory = AckPurgatory()
    waiters, told = waiting(purgatory, 1 << 12)
    kept = [len(purgatory)]
    for living, waiter in zip(reversed(range(len(waiters))), waiters, strict=True):
        waiter.give_up(LATE)
        assert len(purgatory) <= 2 * living + 1, "what is answered is not kept for long"
        if len(purgatory) != kept[-1]:
            kept.append(len(purgatory))
    assert len(kept) <= 14, "so many looks at all of them"
    assert len(purgatory) == 0
    assert [outcome.error for outcome in told] == [LATE] * len(waiters)


def test_each_is_answered_once() -> None:
    purgatory = AckPurgatory()
    waiters, told = waiting(purgatory, 9)
    for late in (waiters[8], waiters[2], waiters[2]):
        late.give_up(LATE)
    assert len(told) == 2
    purgatory.release(5)
    assert [outcome.error for outcome in told] == [LATE] * 2 + [None] * 4
    waiters[0].give_up(LATE)
    gone = NotLeaderOrFollower("gone")
    purgatory.fail_all(gone)
    assert [outcome.error for outcome in told[6:]] == [gone] * 3
    assert all(waiter.is_done for waiter in waiters)
    assert all(outcome.appended for outcome in told), "nobody knows what becomes of them"


def test_who_has_given_up_counts_only_while_it_is_kept() -> None:
    """Else the living would be looked through again and again after the watermark has passed."""
    purgatory = AckPurgatory()
    waiters, told = waiting(purgatory, 100)
    for waiter in waiters[:40]:
        waiter.give_up(LATE)
    assert len(purgatory) == 100
    purgatory.release(40)
    assert (len(purgatory), len(told)) == (60, 40)
    for waiter in waiters[40:69]:
        waiter.give_up(LATE)
    assert len(purgatory) == 60
    waiters[69].give_up(LATE)
    assert len(purgatory) == 30
