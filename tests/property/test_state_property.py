"""Random rows of silver, taken in random parts: a state table holds what a plain loop over all rows
gives, however they are cut.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from support.silver_tables import SilverRow, take
from support.state_tables import States


class Event(NamedTuple):
    """What a producer sends: to which partition, of which key, when, and whether it deletes."""

    partition: int
    key: int | None
    time: int
    kind: str
    """`row`, `tombstone`, or `d`: a row that the condition deletes."""


EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, 2),
        st.one_of(st.integers(0, 4), st.none()),
        st.integers(0, 9),
        st.sampled_from(("row", "row", "row", "tombstone", "d")),
    ),
    min_size=1,
    max_size=24,
)
PARTS = st.lists(st.integers(1, 8), max_size=4)
LIMITS = st.integers(1, 30)


def rows_of(events: list[Event]) -> list[SilverRow]:
    """The rows in the order in which silver gets them."""
    offsets = [0, 0, 0]
    out = []
    for event in events:
        key = None if event.key is None else b"k%d" % event.key
        time = None if event.kind == "tombstone" else event.time
        carrier = "d" if event.kind == "d" else "UA"
        offset = offsets[event.partition]
        offsets[event.partition] += 1
        out.append(SilverRow(event.partition, offset, time, carrier, key=key, at=event.time))
    return out


def latest(rows: list[SilverRow], *, ordered: bool) -> list[tuple[Any, ...]]:
    """Key, partition and offset of the latest row of each key."""
    held: dict[bytes, SilverRow] = {}
    for row in rows:
        if row.key is None:
            continue
        other = held.get(row.key)
        if other is None or place(row, ordered=ordered) > place(other, ordered=ordered):
            held[row.key] = row
    return sorted(
        (row.key, row.partition, row.offset)
        for row in held.values()
        if row.time is not None and row.carrier != "d"
    )


def place(row: SilverRow, *, ordered: bool) -> tuple[int, ...]:
    time = row.time if row.time is not None else row.at
    assert time is not None
    return (time if ordered else 0, row.partition, row.offset)


def run(rows: list[SilverRow], parts: list[int], limit: int, *, ordered: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="state-"))
    try:
        order = ("event_time",) if ordered else ()
        states = States(folder, order=order, delete_when="carrier = 'd'")
        at = 0
        for size in (*parts, len(rows)):
            part, at = rows[at : at + size], at + size
            if part:
                take(states.silver, part)
                states.run(rows_max=limit)
                after = states.verify(full=False)
                assert (after.problems, after.silver) == ([], states.verify().silver)
        assert states.records() == latest(rows, ordered=ordered)
        assert states.verify().problems == []
    finally:
        shutil.rmtree(folder)


@given(EVENTS, PARTS, LIMITS)
@settings(max_examples=8)
def test_an_order_gives_the_same_rows_however_silver_is_cut(
    events: list[Event], parts: list[int], limit: int
) -> None:
    run(rows_of(events), parts, limit, ordered=True)


@given(EVENTS, PARTS, LIMITS)
@settings(max_examples=8)
def test_offsets_give_the_same_rows_however_silver_is_cut(
    events: list[Event], parts: list[int], limit: int
) -> None:
    # Each key has its partition, as producers place it.
    own = [event._replace(partition=(event.key or 0) % 3) for event in events]
    run(rows_of(own), parts, limit, ordered=False)
