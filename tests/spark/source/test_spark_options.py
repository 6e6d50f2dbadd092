"""The source's options, offsets as JSON, and where the error texts lead."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_spark.bronze.bronze import checked_interval
from strandline_spark.cluster.offsets import (
    Offsets,
    StreamOffset,
    TopicPartition,
    decimal,
    from_json,
    limited,
    parse_json,
    stream_from_json,
    stream_to_json,
    to_json,
)
from strandline_spark.errors import OptionError, remedy_line
from strandline_spark.source.losses import OnLoss
from strandline_spark.source.option_values import NoOffset, local_path
from strandline_spark.source.options import (
    check_for_batch,
    check_for_stream,
    parse_options,
)
from strandline_spark.source.schema import BATCH_META, HEADERS, PLAIN

BASE = {"bootstrap.servers": "h:1", "subscribe": "t"}


def test_names_are_accepted_in_any_case_as_spark_lowers_them() -> None:
    options = parse_options(
        {
            "bootstrap.servers": "a:1, b:2",
            "SUBSCRIBE": "y,x",
            "startingoffsets": '{"x":{"0":-2},"y":{"0":7}}',
            "maxoffsetspertrigger": "10",
            "includeheaders": "TRUE",
            "failondataloss": "false",
            "initialoffsetspath": "/p",
        }
    )
    assert options.bootstrap == ("a:1", "b:2")
    assert options.topic_names == ("x", "y")
    assert options.starting == StreamOffset({TopicPartition("x", 0): -2, TopicPartition("y", 0): 7})
    assert options.max_offsets_per_trigger == 10
    assert options.columns == PLAIN + HEADERS
    assert options.on_loss is OnLoss.GO_ON
    assert options.initial_offsets_path == "/p"


@pytest.mark.parametrize("pattern", ["(", "*a", "a{9999999999999}", "[z-a]"])
def test_a_pattern_must_be_one(pattern: str) -> None:
    with pytest.raises(OptionError, match=r"subscribePattern: .* is not a regular expression"):
        parse_options({"bootstrap.servers": "h:1", "subscribePattern": pattern})


@pytest.mark.parametrize("pattern", ["", "  "])
def test_a_pattern_that_matches_no_topic_is_refused(pattern: str) -> None:
    with pytest.raises(
        OptionError, match=r"subscribePattern: .* matches no topic.* '\.\*' for all"
    ):
        parse_options({"bootstrap.servers": "h:1", "subscribePattern": pattern})


def test_columns_are_taken_in_their_own_order() -> None:
    some = parse_options(BASE | {"columns": "OFFSET, key"})
    assert some.columns == ("key", "offset")
    every = parse_options(BASE | {"includeHeaders": "true", "includeBatchMeta": "true"})
    assert every.columns == PLAIN + HEADERS + BATCH_META


def test_assign_names_partitions() -> None:
    options = parse_options({"bootstrap.servers": "h:1", "assign": '{"t":[10,2]}'})
    assert options.assigned == (TopicPartition("t", 2), TopicPartition("t", 10))
    assert options.topic_names == ("t",)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffset": "latest"}, "did you mean startingOffsets"),
        ({"kafka.bootstrap.servers": "h:1"}, "bootstrap.servers is given twice"),
        ({"startingTimestam": "1"}, "did you mean startingTimestamp"),
        ({"kafka.key.deserializer": "x"}, "cannot work here: .*cast or decode"),
        ({"value.deserializer": "x"}, "cannot work here: .*cast or decode"),
        ({"kafka.auto.offset.reset": "x"}, "cannot work here: .*startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "cannot work here: .*checkpoint"),
        ({"kafka.interceptor.classes": "x"}, "cannot work here: .*transform"),
        ({"groupIdPrefix": " "}, "groupIdPrefix: ' ' is no name of a group"),
        ({"kafka.group.id": " "}, "no name of a group"),
        ({"kafka.client.rack": "x"}, "cannot work here: followers do not serve"),
        ({"isolation.level": "all"}, "is not read_uncommitted or read_committed"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "9 is above .* 8"),
        ({"maxTriggerDelay": "soon"}, "for instance 15m"),
        ({"maxTriggerDelay": "\u00b2m"}, "for instance 15m"),
        ({"minPartitions": "0"}, "above 0"),
        ({"maxRecordsPerPartition": "x"}, "above 0"),
        ({"pollTimeoutMs": "0"}, "not above 0"),
        ({"fetchOffset.numRetries": "-1"}, "whole number from 0"),
        ({"startingTimestamp": "1700000000"}, "looks like seconds.* 1700000000000"),
        ({"startingTimestamp": "-1"}, "not a time in milliseconds"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":1700000000}}'}, "of t:0' looks like seconds"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "not a time in milliseconds"),
        ({"endingOffsetsByTimestamp": '{"t":7}'}, "not of the form"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "neither error nor latest"),
        ({"path": "/x"}, r"not supported by the strandline source\. Known: bootstrap"),
        ({"subscibe": "t"}, r"source; did you mean subscribe\? Known: bootstrap"),
        ({"assign": '{"t":[0]}'}, "exactly one"),
        ({"subscribePattern": "t.*"}, "exactly one"),
        ({"maxOffsetsPerTrigger": "0"}, "above 0"),
        ({"maxOffsetsPerTrigger": "1.5"}, "whole number"),
        ({"maxOffsetsPerTrigger": "\u00b2"}, "whole number"),
        ({"maxDecompressedBytes": "1073741825"}, "above 1073741824"),
        ({"maxDecompressedBytes": "0"}, "above 0"),
        ({"columns": " , "}, "must name one or more of key, value"),
        ({"columns": "key,headers"}, "headers with includeHeaders"),
        ({"columns": "nope", "includeHeaders": "true"}, "leaderEpoch, headers"),
        ({"failOnDataLoss": "yes"}, "none of true, false, exceptRetention"),
        ({"startingOffsets": "newest"}, "not earliest, latest"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "-3 of t:0"),
        ({"startingOffsets": '{"t":{"zero":3}}'}, "not a partition number"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "not an offset"),
        ({"startingOffsets": '{"t":5}'}, "not an object of partitions"),
        ({"startingOffsets": "[1]"}, "not an object of topics"),
        ({"startingOffsets": '{"t":{"\u00b2":3}}'}, "not a partition number"),
        ({"startingOffsets": '{"t":{"01":3}}'}, "not a partition number"),
        ({"startingOffsets": '{"t":{"0":9223372036854775808}}'}, "not an offset"),
        ({"startingOffsets": '{"t":{"0":1,"0":2}}'}, "'0' stands there twice"),
        ({"startingOffsets": '{"t":{"0":1},"@lineage":{"t":{}}}'}, "not its id, epochs and starts"),
        ({"startingOffsets": '{"t":{"0":1},"@lineage":{"t":{"id":"?"}}}'}, "not a topic id"),
        ({"startingOffsets": "[" * 100_000}, "not earliest, latest"),
        ({"endingOffsets": '{"t":{"0":1},"@lineage":{"t":{"id":"AAECAwQFBgcICQoLDA0ODw"}}}'}, "@l"),
        ({"bootstrap.servers": "h"}, "not host:port"),
        ({"bootstrap.servers": "h:\u00b2"}, "not host:port"),
        ({"bootstrap.servers": "h:\u0663"}, "not host:port"),
        ({"bootstrap.servers": " , "}, "required"),
        ({"subscribe": " ,"}, "names no topic"),
        ({"initialOffsetsPath": "s3://b/x"}, "local or mounted"),
    ],
)
def test_what_is_not_accepted_is_named_with_the_remedy(more: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_options(BASE | more)


@pytest.mark.parametrize(
    "value", ["t", "[]", "{}", '{"t":[]}', '{"t":[-1]}', '{"t":[true]}', '{"":[0]}']
)
def test_assign_must_list_partitions(value: str) -> None:
    with pytest.raises(OptionError, match="assign"):
        parse_options({"bootstrap.servers": "h:1", "assign": value})


@pytest.mark.parametrize(
    "more",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"t":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"t":{"0":-2}}'},
        {"maxOffsetsPerTrigger": "5"},
        {"maxTriggerDelay": "15m"},
        {"initialOffsetsPath": "/p"},
        {"group.id": "g"},
    ],
)
def test_what_only_a_stream_can_do_is_refused_in_a_batch_query(more: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=next(iter(more))):
        check_for_batch(parse_options(BASE | more))


@pytest.mark.parametrize(
    "end",
    [
        {"endingOffsets": "latest"},
        {"endingTimestamp": "5"},
        {"endingOffsetsByTimestamp": '{"t":{"0":5}}'},
    ],
)
def test_an_end_is_refused_in_a_stream(end: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=next(iter(end))):
        check_for_stream(parse_options(BASE | end))


def test_names_may_have_the_prefixes_that_they_have_in_sparks_kafka_source() -> None:
    options = parse_options(
        {
            "kafka.bootstrap.servers": "h:1",
            "subscribe": "t",
            "kafkaConsumer.pollTimeoutMs": "5000",
            "fetchOffset.numRetries": "0",
            "fetchOffset.retryIntervalMs": "10",
            "kafka.isolation.level": "read_uncommitted",
            "maxTriggerDelay": "90s",
            "startingTimestamp": "1700000000000",
            "startingOffsetsByTimestamp": '{"t":{"0":5}}',
            "startingOffsetsByTimestampStrategy": "LATEST",
        }
    )
    assert options.bootstrap == ("h:1",)
    assert (options.poll_timeout_seconds, options.trigger_delay_seconds) == (5.0, 90.0)
    assert (options.offset_retries, options.offset_retry_seconds) == (0, 0.01)
    # The global time goes before those of partitions.
    assert options.starting_times == 1_700_000_000_000
    assert options.no_offset is NoOffset.LATEST
    defaults = parse_options(BASE)
    assert (defaults.poll_timeout_seconds, defaults.trigger_delay_seconds) == (120.0, 900.0)
    assert (defaults.offset_retries, defaults.offset_retry_seconds) == (3, 1.0)
    assert defaults.no_offset is NoOffset.ERROR


@pytest.mark.parametrize(
    ("value", "path"), [("/a/b", "/a/b"), ("file:///a", "/a"), ("file:/a", "/a")]
)
def test_a_path_may_have_the_file_scheme(value: str, path: str) -> None:
    assert local_path("--table", value) == path


_OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d"]), st.integers(0, 12)),
    st.integers(0, 1 << 40),
)


@given(_OFFSETS, st.randoms())
def test_equal_offsets_have_equal_text_whatever_order_they_came_in(
    offsets: Offsets, random: object
) -> None:
    items = list(offsets.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    text = json.dumps(to_json(offsets))
    assert json.dumps(to_json(dict(items))) == text
    assert from_json(json.loads(text)) == offsets


@given(_OFFSETS, _OFFSETS, _OFFSETS)
def test_an_offset_with_its_lineage_comes_back_from_its_text(
    ends: Offsets, epochs: Offsets, starts: Offsets
) -> None:
    ids = {tp.topic: tp.topic.encode().ljust(16) for tp in (*ends, *epochs, *starts)}
    offset = StreamOffset(ends, ids, epochs, starts)
    text = json.dumps(stream_to_json(offset))
    assert stream_from_json(parse_json(text)) == offset
    plain = StreamOffset(ends)
    assert stream_to_json(plain) == to_json(ends)
    assert stream_from_json(to_json(ends)) == plain


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_0", "\u00b2", "\u0663", " 1", str(1 << 63)])
def test_what_is_no_whole_number_is_not_taken_for_one(text: str) -> None:
    assert decimal(text) is None
    assert decimal(str((1 << 63) - 1)) == (1 << 63) - 1
    with pytest.raises(OptionError, match="for instance 10s"):
        checked_interval(f"{text}s")


def test_a_prefix_makes_a_group_of_what_is_read_and_the_same_after_a_restart() -> None:
    def group(**more: str) -> str | None:
        return parse_options({"bootstrap.servers": "h:1", "groupIdPrefix": "etl"} | more).group_id

    own = group(subscribe="a,b")
    assert re.fullmatch("etl-[0-9a-f]{16}", own or "")
    assert own == group(subscribe=" b, a", maxOffsetsPerTrigger="7")
    others = {
        group(subscribe="a"),
        group(subscribe="a.b"),
        group(subscribePattern="a.b"),
        group(assign='{"a":[0,1]}'),
        group(assign='{"a":[0]}'),
        group(subscribe="a,b", groupIdPrefix="other"),
    }
    assert len(others | {own}) == 7
    assert group(assign='{"a":[1,0]}') in others
    assert group(subscribe="a,b", **{"kafka.group.id": "g"}) == "g"
    assert group(subscribe="a,b", groupIdPrefix="etl") == "etl-c3c957dcf5d01fb5"


def test_a_batch_query_has_no_group() -> None:
    with pytest.raises(OptionError, match=r"group\.id \(or groupIdPrefix\) is for streams"):
        check_for_batch(parse_options(BASE | {"groupIdPrefix": "x"}))


@pytest.mark.parametrize("word", ["continuous", "realTime", "real-time", "Continuous=1s"])
def test_continuous_and_real_time_triggers_are_refused_with_what_to_do(word: str) -> None:
    with pytest.raises(OptionError, match=r"in micro-batches alone.*give a number.* at best 1s"):
        checked_interval(word)


def test_partitions_are_sorted_by_number_not_as_text() -> None:
    offsets = {TopicPartition("t", n): n for n in (10, 9, 1)}
    assert list(to_json(offsets)["t"]) == ["1", "9", "10"]


@given(_OFFSETS, st.dictionaries(st.integers(0, 40), st.integers(0, 1000)), st.integers(1, 500))
def test_a_limit_moves_every_partition_that_has_a_backlog_and_none_past_its_end(
    start: Offsets, more: dict[int, int], limit: int
) -> None:
    end = {tp: offset + more.get(i, 0) for i, (tp, offset) in enumerate(start.items())}
    cut = limited(start, end, limit)
    moved = {tp: cut[tp] - start[tp] for tp in start}
    assert all(start[tp] <= cut[tp] <= end[tp] for tp in start)
    assert all(moved[tp] > 0 for tp in start if end[tp] > start[tp])
    assert sum(moved.values()) <= limit + len(start)


def test_our_message_is_found_in_a_traceback_of_spark() -> None:
    text = (
        "org.apache.spark.SparkException: [X]\nTraceback (most recent call last):\n"
        '  File "x.py", line 3\nstrandline_spark.errors.DataLoss: t:0 is gone; do this\n\tat java'
    )
    assert remedy_line(text) == "t:0 is gone; do this"
    assert remedy_line("java.lang.Error: no") is None
