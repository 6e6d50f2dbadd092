"""Random histories of a silver table: what gold reads back from its commits alone is what a twin
that keeps the rows of open windows in memory has put out.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.gold.watermark import (
    GoldCommit,
    PartitionProgress,
    Window,
    WindowKind,
    closes,
    event_times_to_read,
    final_watermark,
    in_window,
    is_late,
    next_watermark,
)
from support.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[TopicPartition, int]
PARTITIONS = [TopicPartition("access", number) for number in range(3)]
TOPIC = st.lists(st.lists(st.integers(-40, 120), max_size=12), min_size=3, max_size=3)
STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.booleans()), max_size=12)
KINDS = st.tuples(st.integers(1, 30), st.integers(1, 30)).map(
    lambda pair: WindowKind(size=max(pair), slide=min(pair))
)


class Twin:
    """A state store: rows wait in their open windows, and are dropped from those that are shut."""

    def __init__(self, kind: WindowKind) -> None:
        self.kind = kind
        self.watermark: int | None = None
        self.open: dict[Window, set[Row]] = defaultdict(set)
        self.out: dict[Window, set[Row]] = {}
        self.late: set[Row] = set()

    def add(self, row: Row, time: int) -> None:
        start = -1000
        start -= start % self.kind.slide
        while start <= time:
            window = Window(start, start + self.kind.size)
            if time < window.end:
                if self.watermark is not None and window.end <= self.watermark:
                    self.late.add(row)
                else:
                    self.open[window].add(row)
            start += self.kind.slide

    def move(self, watermark: int) -> None:
        self.watermark = watermark
        for window in [one for one in self.open if one.end <= watermark]:
            assert window not in self.out
            self.out[window] = self.open.pop(window)


def progress(
    topic: Sequence[Sequence[int]], ends: dict[TopicPartition, int]
) -> list[PartitionProgress]:
    return [
        PartitionProgress(max(times[: ends[tp]], default=None), backlog=ends[tp] < len(times))
        for tp, times in zip(PARTITIONS, topic, strict=True)
    ]


def held(rows: dict[Row, int], ends: dict[TopicPartition, int]) -> dict[Row, int]:
    return {(tp, offset): time for (tp, offset), time in rows.items() if offset < ends[tp]}


def closed_now(
    kind: WindowKind, previous: int | None, watermark: int, rows: dict[Row, int]
) -> dict[Window, set[Row]]:
    """What a step of gold computes, from the event times alone that it reads."""
    reading = event_times_to_read(kind, previous, watermark)
    out: dict[Window, set[Row]] = defaultdict(set)
    if reading is None:
        return out
    first, end = reading
    for row, time in rows.items():
        if time < end and (first is None or time >= first):
            for window in kind.windows_of(time):
                if closes(window, previous, watermark):
                    out[window].add(row)
    return out


def recomputed_from(
    history: list[GoldCommit], kind: WindowKind, rows: dict[Row, int]
) -> dict[Window, set[Row]]:
    out: dict[Window, set[Row]] = defaultdict(set)
    for (tp, offset), time in rows.items():
        for window in kind.windows_of(time):
            if in_window(history, window, tp, offset):
                out[window].add((tp, offset))
    return out


@settings(max_examples=examples(80))
@given(topic=TOPIC, steps=STEPS, kind=KINDS, delay=st.integers(0, 30))
def test_gold_from_its_commits_is_what_a_state_store_puts_out(
    topic: list[list[int]], steps: list[tuple[int, int, bool]], kind: WindowKind, delay: int
) -> None:
    rows = {
        (tp, offset): time
        for tp, times in zip(PARTITIONS, topic, strict=True)
        for offset, time in enumerate(times)
    }
    ends = dict.fromkeys(PARTITIONS, 0)
    twin, history = Twin(kind), list[GoldCommit]()
    gold: dict[Window, set[Row]] = {}
    for number, count, close in steps:
        tp = PARTITIONS[number]
        before, ends[tp] = ends[tp], min(ends[tp] + count, len(topic[number]))
        for offset in range(before, ends[tp]):
            twin.add((tp, offset), topic[number][offset])
        previous = history[-1].watermark if history else None
        now = progress(topic, ends)
        watermark = (
            final_watermark(previous, now, kind) if close else next_watermark(previous, now, delay)
        )
        if watermark is None:
            continue
        assert previous is None or watermark >= previous
        history.append(GoldCommit(watermark, dict(ends)))
        step = closed_now(kind, previous, watermark, held(rows, ends))
        assert not step.keys() & gold.keys()
        gold |= step
        twin.move(watermark)
    assert gold == twin.out
    assert recomputed_from(history, kind, rows) == gold
    late = {
        row
        for row, time in held(rows, ends).items()
        if is_late(history, kind, row[0], row[1], time)
    }
    assert late == twin.late


@settings(max_examples=examples(80))
@given(
    topic=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=12),
        min_size=3,
        max_size=3,
    ),
    steps=STEPS,
    kind=KINDS,
)
def test_reading_a_backlog_unevenly_makes_no_row_late(
    topic: list[list[tuple[int, int]]], steps: list[tuple[int, int, bool]], kind: WindowKind
) -> None:
    """Within each partition rows come at most the delay, 7, after a later one; between the
    partitions nothing is promised.
    """
    times = [_almost_in_order(steps_of_one) for steps_of_one in topic]
    ends = dict.fromkeys(PARTITIONS, 0)
    history: list[GoldCommit] = []
    for number, count, _ in steps:
        tp = PARTITIONS[number]
        ends[tp] = min(ends[tp] + count, len(times[number]))
        previous = history[-1].watermark if history else None
        watermark = next_watermark(previous, progress(times, ends), delay=7)
        if watermark is not None:
            history.append(GoldCommit(watermark, dict(ends)))
    for tp, one in zip(PARTITIONS, times, strict=True):
        for offset, time in enumerate(one):
            assert not is_late(history, kind, tp, offset, time)


def _almost_in_order(steps: list[tuple[int, int]]) -> list[int]:
    reached, out = 0, []
    for forward, back in steps:
        reached += forward
        out.append(reached - back)
    return out
