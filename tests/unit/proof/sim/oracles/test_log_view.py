"""What a log holds that was begun anew within a batch: where a log start lay there (I-75)."""

from __future__ import annotations

import random

from strandline_proof.sim.disk import SimDisk
from strandline_proof.sim.oracles.log_view import Entry, LogView

FIRST, SECOND = Entry(0, 11, 0, 6, None), Entry(11, 28, 0, 7, (0, 0))


def log(start: int, *entries: Entry) -> LogView:
    view = LogView(SimDisk(random.Random(0), lambda: 0.0), "/data/t-0")
    view.begin_at(start)
    view.entries = list(entries)
    view._places = [(start, number) for number, _ in enumerate(entries, start=1)]
    return view


def test_a_batch_over_its_start_is_held_if_it_is_there() -> None:
    assert log(10, FIRST, SECOND).holds(FIRST)
    assert not log(10).holds(FIRST), "its last record went with the power"
    assert log(11).holds(FIRST), "removed as a whole"


def test_a_cut_within_a_batch_takes_it_and_begins_the_log_anew() -> None:
    view = log(0, FIRST, SECOND)
    assert view.cut(10) == [FIRST, SECOND]
    assert (view.start, view.end) == (10, 10)
    assert not view.holds(FIRST)


def test_a_cut_between_batches_takes_what_is_behind_it() -> None:
    view = log(0, FIRST, SECOND)
    assert view.cut(11) == [SECOND]
