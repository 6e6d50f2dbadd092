"""Gold's watermark: when it moves, what it closes, and which rows come too late."""

from __future__ import annotations

import pytest

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import OptionError
from strandline_spark.gold.watermark import (
    GoldCommit,
    PartitionProgress,
    Window,
    WindowKind,
    closed_by,
    closes,
    event_times_to_read,
    final_watermark,
    in_window,
    is_late,
    next_of_topics,
    next_watermark,
)

Progress = PartitionProgress
TP = TopicPartition("access", 0)
TUMBLING = WindowKind(size=10, slide=10)
HOPPING = WindowKind(size=10, slide=4)


def read_up(time: int | None) -> PartitionProgress:
    return PartitionProgress(time, backlog=False)


def behind(time: int | None) -> PartitionProgress:
    return PartitionProgress(time, backlog=True)


def test_without_a_backlog_the_latest_row_moves_the_watermark() -> None:
    assert next_watermark(None, [read_up(100), read_up(40), read_up(None)], delay=5) == 95


def test_the_slowest_partition_with_a_backlog_holds_the_watermark() -> None:
    assert next_watermark(None, [read_up(100), behind(40), behind(60)], delay=5) == 35
    assert next_watermark(None, [read_up(10), behind(40)], delay=5) == 35


def test_a_partition_whose_backlog_shows_no_row_yet_holds_the_watermark_where_it_is() -> None:
    assert next_watermark(None, [behind(None), read_up(100)], delay=5) is None
    assert next_watermark(20, [behind(None), behind(100)], delay=5) == 20


def test_a_watermark_never_goes_back_and_no_row_moves_none() -> None:
    assert next_watermark(60, [behind(40)], delay=5) == 60
    assert next_watermark(0, [], delay=5) == 0
    assert next_watermark(None, [read_up(None)], delay=5) is None


def of(topic: str, time: int | None, *, backlog: bool = False, idle: bool = False) -> Progress:
    return Progress(time, backlog, topic, is_idle=idle)


def test_an_idle_partition_with_a_backlog_holds_the_watermark_no_longer() -> None:
    stopped = Progress(40, backlog=True, is_idle=True)
    assert next_watermark(None, [read_up(100), stopped, behind(60)], delay=5) == 55
    assert next_watermark(None, [read_up(100), stopped], delay=5) == 95
    assert next_watermark(None, [stopped], delay=5) == 35


def test_each_topic_has_its_delay_and_the_earliest_watermark_counts() -> None:
    delays = {"a": 5, "b": 30}
    assert next_of_topics(None, [of("a", 100), of("a", 90), of("b", 110)], delays) == 80
    assert next_of_topics(None, [of("a", 70), of("b", 110)], delays) == 65
    assert next_of_topics(70, [of("a", 70), of("b", 110)], delays) == 70
    behind_in_b = [of("a", 100), of("b", 110), of("b", 60, backlog=True)]
    assert next_of_topics(None, behind_in_b, delays) == 30


def test_a_topic_without_rows_holds_the_watermark_until_it_is_idle() -> None:
    delays = {"a": 5, "b": 30}
    assert next_of_topics(None, [of("a", 100)], delays) is None
    assert next_of_topics(20, [of("a", 100)], delays) == 20
    assert next_of_topics(20, [of("a", 100), of("b", None)], delays) == 20
    assert next_of_topics(20, [of("a", 100), of("b", None, idle=True)], delays) == 95


def test_an_idle_topic_holds_the_watermark_no_longer_if_all_its_partitions_are_idle() -> None:
    delays = {"a": 5, "b": 5}
    rows = [of("a", 100), of("b", 50, idle=True)]
    assert next_of_topics(None, rows, delays) == 95
    assert next_of_topics(None, [*rows, of("b", 60)], delays) == 55
    all_idle = [of("a", 100, idle=True), of("b", 50, idle=True)]
    assert next_of_topics(None, all_idle, delays) == 95


def test_the_final_watermark_is_the_end_of_the_last_window_with_a_row() -> None:
    assert final_watermark(None, [read_up(20), read_up(7)], TUMBLING) == 30
    assert final_watermark(None, [read_up(9)], HOPPING) == 18
    assert final_watermark(50, [read_up(20)], TUMBLING) == 50
    assert final_watermark(3, [], TUMBLING) == 3


def test_a_moment_lies_in_each_hopping_window_around_it_and_in_one_that_tumbles() -> None:
    assert HOPPING.windows_of(9) == [Window(0, 10), Window(4, 14), Window(8, 18)]
    assert HOPPING.windows_of(10) == [Window(4, 14), Window(8, 18)]
    assert TUMBLING.windows_of(10) == [Window(10, 20)]
    assert TUMBLING.windows_of(-1) == [Window(-10, 0)]


@pytest.mark.parametrize("kind", [TUMBLING, HOPPING, WindowKind(7, 7), WindowKind(9, 1)])
def test_the_first_and_last_window_of_a_moment_are_found_without_those_between(
    kind: WindowKind,
) -> None:
    for time in range(-25, 25):
        assert kind.first_start(time) == kind.windows_of(time)[0].start
        assert kind.final_end(time) == kind.windows_of(time)[-1].end


@pytest.mark.parametrize("slide", [0, -4, 11])
def test_a_slide_that_leaves_rows_between_windows_is_refused(slide: int) -> None:
    with pytest.raises(OptionError, match=f"slide is {slide} µs and window 10 µs"):
        WindowKind(size=10, slide=slide)


def test_a_window_closes_when_the_watermark_reaches_its_end_and_once() -> None:
    assert closes(Window(0, 10), None, 10)
    assert not closes(Window(0, 10), None, 9)
    assert not closes(Window(0, 10), 10, 20)
    assert closes(Window(0, 10), 9, 20)


def test_what_is_read_begins_with_the_first_window_that_was_open() -> None:
    assert event_times_to_read(TUMBLING, 20, 35) == (20, 30)
    assert event_times_to_read(TUMBLING, 19, 35) == (10, 30)
    assert event_times_to_read(TUMBLING, None, 35) == (None, 30)
    assert event_times_to_read(TUMBLING, 30, 39) is None
    assert event_times_to_read(HOPPING, 10, 20) == (4, 18)
    assert event_times_to_read(HOPPING, 10, 13) is None


def test_a_row_is_late_if_it_came_after_one_of_its_windows_was_closed() -> None:
    history = [GoldCommit(10, {TP: 5}), GoldCommit(14, {TP: 8})]
    assert closed_by(history, Window(0, 10)) is history[0]
    assert closed_by(history, Window(8, 18)) is None
    assert in_window(history, Window(0, 10), TP, 4)
    assert not in_window(history, Window(0, 10), TP, 5)
    assert in_window(history, Window(4, 14), TP, 5)
    assert not is_late(history, HOPPING, TP, offset=4, event_time=9)
    assert is_late(history, HOPPING, TP, offset=5, event_time=9)
    assert not is_late(history, HOPPING, TP, offset=7, event_time=10)
    assert is_late(history, HOPPING, TopicPartition("access", 1), offset=0, event_time=9)
