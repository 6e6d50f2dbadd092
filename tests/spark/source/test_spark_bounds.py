"""Where queries start and end by time, how large micro-batches get, and how ranges become tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import ClusterUnreachable, DataLoss, OptionError
from strandline_spark.source import planner as planner_module
from strandline_spark.source.options import parse_options
from strandline_spark.source.planner import Planner
from strandline_spark.source.splitting import PlannedRange, split
from support.spark_stream import EngineOfSpark

if TYPE_CHECKING:
    from support.fake_broker_sync import FakeBroker, FakeTopic

START_MS = 1_700_000_000_000


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    """Partition 0 has 10 records of each of 10 seconds, partition 1 of the first 5 alone."""
    made = broker.create("t", 2)
    for second in range(10):
        for partition in made.partitions[: 2 if second < 5 else 1]:
            partition.append([(b"k", b"v")] * 10, timestamp_ms=START_MS + 1000 * second)
    return made


def batch(broker: FakeBroker, **more: str) -> list[tuple[int, int, int]]:
    options = {"bootstrap.servers": broker.address, "subscribe": "t"} | more
    given = {name: value for name, value in options.items() if value}
    planned = Planner(parse_options(given)).batch_ranges()
    return [(one.tp.partition, one.start, one.stop) for one in planned]


def test_a_batch_query_reads_between_two_times(broker: FakeBroker, topic: FakeTopic) -> None:
    first, last = START_MS + 1500, START_MS + 3000
    assert batch(broker, startingTimestamp=str(first), endingTimestamp=str(last)) == [
        (0, 20, 30),
        (1, 20, 30),
    ]
    # An end after the last record is the end of the log.
    ends = f'{{"t":{{"0":{START_MS + 8000},"1":{START_MS + 8000}}}}}'
    assert batch(broker, endingOffsetsByTimestamp=ends) == [(0, 0, 80), (1, 0, 50)]


def test_a_global_time_goes_before_times_of_partitions_and_these_before_offsets(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    times = f'{{"t":{{"0":{START_MS + 2000},"1":{START_MS + 4000}}}}}'
    more = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": times}
    assert batch(broker, **more) == [(0, 20, 100), (1, 40, 50)]
    more["startingTimestamp"] = str(START_MS + 3000)
    assert batch(broker, **more) == [(0, 30, 100), (1, 30, 50)]


def test_a_start_after_the_last_record_is_an_error_or_the_end(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    more = {"startingTimestamp": str(START_MS + 7000)}
    with pytest.raises(OptionError, match="t:1 has no record at or after that time"):
        batch(broker, **more)
    more["startingOffsetsByTimestampStrategy"] = "latest"
    assert batch(broker, **more) == [(0, 70, 100)]
    stream = EngineOfSpark(broker.address, **more)
    assert stream.trigger() == [(0, 70, 100)]
    topic.partitions[1].append([(b"k", b"v")])
    assert stream.restart() == []
    assert stream.trigger() == [(1, 50, 51)]


def test_a_crash_in_the_first_batch_loses_nothing_of_a_stream_from_a_time(
    broker: FakeBroker, topic: FakeTopic
) -> None:
    stream = EngineOfSpark(broker.address, startingTimestamp=str(START_MS + 4000))
    assert stream.plan()
    # By now the time stands for a later offset.
    for partition in topic.partitions:
        partition.log_start = partition.log_end - 10
    assert stream.restart(failOnDataLoss="false") == [(0, 40, 100), (1, 40, 50)]


def test_times_must_name_every_partition(broker: FakeBroker, topic: FakeTopic) -> None:
    with pytest.raises(OptionError, match=r"startingOffsetsByTimestamp .* missing t:1"):
        batch(broker, startingOffsetsByTimestamp='{"t":{"0":5}}')


def test_a_batch_waits_for_its_least_size_but_not_for_ever(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition,) = broker.create("t").partitions
    now = [100.0]
    monkeypatch.setattr("strandline_spark.source.planner.time.monotonic", lambda: now[0])
    stream = EngineOfSpark(
        broker.address,
        startingOffsets="earliest",
        minOffsetsPerTrigger="50",
        maxTriggerDelay="60s",
    )
    partition.append([(b"k", b"v")] * 10)
    assert stream.trigger() == []
    assert stream.trigger() is None
    partition.append([(b"k", b"v")] * 40)
    assert stream.trigger() == [(0, 0, 50)]
    partition.append([(b"k", b"v")] * 10)
    now[0] += 59
    assert stream.trigger() is None
    now[0] += 2
    assert stream.trigger() == [(0, 50, 60)]
    partition.append([(b"k", b"v")] * 10)
    assert stream.trigger() is None
    # What is available now is read now.
    stream.available_now()
    assert stream.trigger() == [(0, 60, 70)]
    for more in ({}, {"maxOffsetsPerTrigger": "60"}):
        stream.restart(**more)
        partition.append([(b"k", b"v")] * 10)
        assert stream.trigger() is None
        end = partition.log_end
        assert stream.once() == [(0, end - 10, end)]


def test_a_least_size_that_is_the_most_as_well_does_not_wait_for_shares_cut_to_less(
    broker: FakeBroker,
) -> None:
    for partition in broker.create("t", 3).partitions:
        partition.append([(b"k", b"v")] * 10)
    limits = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "10"}
    stream = EngineOfSpark(broker.address, startingOffsets="earliest", **limits)
    assert stream.trigger() == [(p, 0, 3) for p in range(3)]
    assert stream.trigger() == [(p, 3, 6) for p in range(3)]


def test_long_ranges_become_several_tasks(broker: FakeBroker, topic: FakeTopic) -> None:
    assert batch(broker, minPartitions="3") == [(0, 0, 50), (0, 50, 100), (1, 0, 50)]
    assert batch(broker, maxRecordsPerPartition="40") == [
        *((0, 0, 33), (0, 33, 66), (0, 66, 100)),
        *((1, 0, 25), (1, 25, 50)),
    ]


def test_no_broker_is_asked_as_often_as_the_options_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planner_module, "TRY_SECONDS", 0.05)
    slept: list[float] = []
    monkeypatch.setattr("strandline_spark.source.planner.time.sleep", slept.append)
    options = {
        "bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "77",
    }
    with pytest.raises(ClusterUnreachable, match="is the cluster up"):
        Planner(parse_options(options)).initial()
    assert slept.count(0.077) == 2


_RANGES = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 5000), st.integers(0, 3000)))


@given(_RANGES, st.integers(1, 60) | st.none(), st.integers(1, 700) | st.none())
def test_pieces_are_the_ranges_and_short_ones_stay_whole(
    made: list[tuple[int, int, int]], least: int | None, most: int | None
) -> None:
    ranges = [
        PlannedRange(TopicPartition("t", p), b"", start, start + size, 0, log_start)
        for p, (start, size, log_start) in enumerate(made)
    ]
    pieces = split(ranges, min_partitions=least, max_records=most)
    for one in ranges:
        own = [piece for piece in pieces if piece.tp == one.tp]
        assert (own[0].start, own[-1].stop) == (one.start, one.stop)
        assert all(a.stop == b.start for a, b in pairwise(own))
        assert all(piece.size > 0 for piece in own) or len(own) == 1
        if most is not None:
            assert all(piece.size <= most for piece in own)
        if most is None and least is not None:
            total = sum(each.size for each in ranges)
            assert len(own) == 1 or one.size * least > total
    if least is None and most is None:
        assert pieces == ranges


def test_as_many_tasks_as_asked_for_where_records_are_many() -> None:
    sizes = [10, 400, 1000, 3000]
    ranges = [PlannedRange(TopicPartition("t", p), b"", 0, n, 0) for p, n in enumerate(sizes)]
    pieces = split(ranges, min_partitions=12, max_records=None)
    counts = [sum(piece.tp.partition == p for piece in pieces) for p in range(4)]
    assert counts == [1, 1, 3, 7]
    assert max(piece.size for piece in pieces if piece.tp.partition == 3) == 429


def test_a_pattern_takes_whole_names_and_topics_that_come_later_from_their_first_record(
    broker: FakeBroker,
) -> None:
    for name in ("a", "ab", "xa", "b"):
        broker.create(name).partitions[0].append([(b"k", b"v")] * 10)
    broker.create("a_internal").internal = True
    query = EngineOfSpark(broker.address, subscribe="", subscribePattern="ab?|a_.*")
    assert query.trigger() == []
    assert query.ends == {"a": {"0": 10}, "ab": {"0": 10}}
    broker.create("a_new").partitions[0].append([(b"k", b"v")] * 5)
    assert query.trigger() == [(0, 0, 5)]
    assert query.ends == {"a": {"0": 10}, "a_new": {"0": 5}, "ab": {"0": 10}}
    # What is available now is what was there when it started.
    query.available_now()
    broker.create("a_newer").partitions[0].append([(b"k", b"v")] * 5)
    assert query.trigger() is None
    query.restart()
    assert query.trigger() == [(0, 0, 5)]
    del broker.topics["ab"]
    with pytest.raises(DataLoss, match=r"ab:0 from 10 on by deletion \(topic ab does not exist"):
        query.trigger()


def test_a_pattern_may_match_nothing_yet(broker: FakeBroker) -> None:
    query = EngineOfSpark(broker.address, subscribe="", subscribePattern="t.*")
    assert query.trigger() is None
    broker.create("t1").partitions[0].append([(b"k", b"v")] * 5)
    assert query.trigger() == [(0, 0, 5)]
    assert query.trigger() is None
    assert batch(broker, subscribe="", subscribePattern="nothing") == []
