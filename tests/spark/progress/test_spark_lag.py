"""How far a query is behind: what is reported of it in Spark's progress, and by the listener."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proto.batch import ATTRIBUTES_AT, build_batch
from strandline_spark.cluster.offsets import StreamOffset, TopicPartition
from strandline_spark.errors import OptionError
from strandline_spark.source import lag as lag_module
from strandline_spark.source.lag import Lag, Spread, reported, seconds_behind
from strandline_spark.spark.listener import LagListener
from support.cluster import eventually
from support.fake_broker_sync import resealed
from support.spark_stream import EngineOfSpark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.fake_broker_sync import FakeBroker, FakeTopic

NOW_MS = 1_800_000_000_000
T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


def aged(broker: FakeBroker, *seconds: tuple[int, ...]) -> FakeTopic:
    """A topic with a batch of two records of each age for each partition."""
    topic = broker.create("t", len(seconds))
    for partition, ages in zip(topic.partitions, seconds, strict=True):
        for age in ages:
            partition.append([(b"k", b"v")] * 2, timestamp_ms=NOW_MS - 1000 * age)
    return topic


def behind(broker: FakeBroker, topic: FakeTopic, ends: dict[TopicPartition, int]) -> Spread | None:
    latest = {T: p.high_watermark for T, p in zip((T0, T1, T2), topic.partitions, strict=False)}
    ended = StreamOffset(ends, {"t": topic.topic_id})
    return seconds_behind((broker.address,), ended, latest, NOW_MS / 1000)


def test_seconds_are_the_age_of_the_first_batch_that_is_not_read(broker: FakeBroker) -> None:
    topic = aged(broker, (90, 50, 10), (80, 40), (7,))
    assert behind(broker, topic, {T0: 2, T1: 3, T2: 2}) == Spread(0.0, 30.0, 50.0)
    assert broker.calls == ["Metadata", "FetchRange", "FetchRange"]
    eventually(lambda: broker.open_ranges == 0, "the broker has heard that no more is wanted")


def test_a_partition_that_the_query_does_not_know_yet_is_behind_by_all_it_has(
    broker: FakeBroker,
) -> None:
    topic = aged(broker, (90,), (70,))
    assert behind(broker, topic, {T0: 2}) == Spread(0.0, 35.0, 70.0)


def test_nobody_is_asked_where_everything_is_read(broker: FakeBroker) -> None:
    topic = aged(broker, (90,), (80,))
    assert behind(broker, topic, {T0: 2, T1: 2}) == Spread(0.0, 0.0, 0.0)
    assert broker.calls == []


def test_the_brokers_clock_counts_where_the_topic_says_so(broker: FakeBroker) -> None:
    topic = broker.create("t")
    batch = bytearray(build_batch([(b"k", b"v")] * 2, timestamp_ms=NOW_MS - 9000))
    batch[ATTRIBUTES_AT + 1] |= 0x08
    batch[35:43] = (NOW_MS - 2000).to_bytes(8, "big")
    topic.partitions[0].append_bytes(resealed(batch))
    assert behind(broker, topic, {T0: 0}) == Spread(2.0, 2.0, 2.0)


def test_only_the_partitions_furthest_behind_are_asked(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag_module, "LOOKED_AT_MAX", 1)
    topic = aged(broker, (90,), (80, 40), (7,))
    assert behind(broker, topic, {T0: 0, T1: 0, T2: 2}) == Spread(0.0, 40.0, 80.0)


def test_seconds_are_unknown_where_the_leader_does_not_say(broker: FakeBroker) -> None:
    topic = aged(broker, (90,))
    topic.partitions[0].log_start = 2
    topic.partitions[0].append([(b"k", b"v")], timestamp_ms=NOW_MS)
    assert behind(broker, topic, {T0: 0}) is None
    other = StreamOffset({T0: 2}, {"t": b"another topic id"})
    assert seconds_behind((broker.address,), other, {T0: 3}, NOW_MS / 1000) is None
    assert seconds_behind(("127.0.0.1:1",), other, {T0: 3}, NOW_MS / 1000) is None


def test_sparks_progress_carries_the_offsets_behind(broker: FakeBroker) -> None:
    topic = aged(broker, (90, 50), (80,), ())
    stream = EngineOfSpark(broker.address, startingOffsets="earliest")
    assert stream.reader.reportLatestOffset() is None
    stream.trigger(3)
    told: dict[str, Any] = stream.reader.reportLatestOffset() or {}
    assert told["t"] == {"0": 4, "1": 2, "2": 0}
    assert told["@behind"] == {
        "minOffsetsBehindLatest": 0,
        "avgOffsetsBehindLatest": 1.0,
        "maxOffsetsBehindLatest": 2,
    }
    while stream.trigger(3) is not None:
        pass
    assert (stream.reader.reportLatestOffset() or {})["@behind"]["maxOffsetsBehindLatest"] == 0
    stream.restart()
    topic.partitions[2].append([(b"k", b"v")])
    stream.plan()
    assert (stream.reader.reportLatestOffset() or {})["@behind"]["maxOffsetsBehindLatest"] == 0


@pytest.mark.parametrize(
    ("end", "latest"),
    [(None, "{}"), ('{"t": {"0": 1}}', '{"t": {"0": 1}}'), ("7", "{}"), ("not", "json")],
)
def test_what_other_sources_report_is_left_alone(end: str | None, latest: str) -> None:
    assert reported(end, latest) is None
    assert reported('{"@lineage": {}}', "null") is None


def test_a_lag_is_told_in_a_line() -> None:
    one = Lag("q", 7, ("a", "b", "c", "d"), Spread(0, 1000.25, 4001), Spread(0.0, 2.04, 8.06))
    assert str(one) == (
        "query q, batch 7, a, b, c, …: 0 to 4,001 offsets behind (average 1,000.2),"
        " 0.0 to 8.1 s (average 2.0 s)"
    )
    assert str(Lag("q", 7, ("a",), Spread(1, 1, 1), None)).endswith("in seconds unknown")


def test_a_listener_needs_brokers() -> None:
    with pytest.raises(OptionError, match=r"bootstrap\.servers"):
        LagListener(" ")


@pytest.mark.spark
def test_the_listener_tells_of_each_micro_batch(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.create("t", 2)
    for _ in range(3):
        topic.partitions[0].append([(b"k", b"v")] * 10, timestamp_ms=int(1000 * time.time()) - 5000)
    lags: list[Lag] = []
    handing, logging_one = LagListener(broker.address, lags.append), LagListener(broker.address)
    spark.streams.addListener(handing)
    spark.streams.addListener(logging_one)
    options = {
        "bootstrap.servers": broker.address,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "10",
    }
    try:
        with caplog.at_level(logging.INFO, logger="strandline_spark"):
            query = (
                spark.readStream.format("strandline")
                .options(**options)
                .load()
                .writeStream.format("noop")
                .queryName("slow")
                .option("checkpointLocation", str(tmp_path / "c"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(handing)
        spark.streams.removeListener(logging_one)
    assert [(lag.query, lag.batch_id, lag.offsets) for lag in lags] == [
        ("slow", 0, Spread(0, 10.0, 20)),
        ("slow", 1, Spread(0, 5.0, 10)),
        ("slow", 2, Spread(0, 0.0, 0)),
    ]
    assert all(lag.seconds is not None for lag in lags)
    assert [lag.seconds.most >= 5.0 for lag in lags if lag.seconds] == [True, True, False]
    told = [r.message for r in caplog.records if r.name == "strandline_spark.spark.listener"]
    assert len(told) == 3
    assert told[0].startswith("query slow, batch 0, t: 0 to 20 offsets behind (average 10.0), 0.0")
