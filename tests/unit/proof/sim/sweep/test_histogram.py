"""A measure of many runs in little room."""

from strandline_proof.sim.sweep.histogram import Spread


def test_nothing_measured() -> None:
    assert Spread().document() == {"count": 0, "p50_ms": 0.0, "p90_ms": 0.0, "max_ms": 0.0}


def test_shares_are_told_to_fifty_milliseconds_and_the_most_exactly() -> None:
    spread = Spread()
    spread.add(range(0, 1000))
    assert spread.document() == {"count": 1000, "p50_ms": 500, "p90_ms": 900, "max_ms": 999}


def test_what_is_longer_than_a_minute_takes_no_more_room() -> None:
    spread = Spread()
    spread.add([1e9, 2e9, 3e9])
    assert len(spread._steps) == 1
    assert spread.max_ms == 3e9
