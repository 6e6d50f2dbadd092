"""The source's options, offsets as JSON, and where the error texts lead."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_spark.errors import OptionError, remedy_line
from strandline_spark.offsets import (
    Offsets,
    TopicPartition,
    from_json,
    limited,
    to_json,
)
from strandline_spark.options import (
    check_for_batch,
    check_for_stream,
    local_path,
    parse_options,
)

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
    assert options.starting == {TopicPartition("x", 0): -2, TopicPartition("y", 0): 7}
    assert options.max_offsets_per_trigger == 10
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert options.initial_offsets_path == "/p"


def test_assign_names_partitions() -> None:
    options = parse_options({"bootstrap.servers": "h:1", "assign": '{"t":[10,2]}'})
    assert options.assigned == (TopicPartition("t", 2), TopicPartition("t", 10))
    assert options.topic_names == ("t",)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffset": "latest"}, "did you mean startingOffsets"),
        ({"kafka.bootstrap.servers": "h:1"}, "did you mean bootstrap.servers"),
        ({"kafka.group.id": "g"}, "not supported"),
        ({"path": "/x"}, "not supported"),
        ({"assign": '{"t":[0]}'}, "exactly one"),
        ({"maxOffsetsPerTrigger": "0"}, "above 0"),
        ({"maxOffsetsPerTrigger": "1.5"}, "whole number"),
        ({"maxOffsetsPerTrigger": "\u00b2"}, "whole number"),
        ({"maxDecompressedBytes": "1073741825"}, "above 1073741824"),
        ({"maxDecompressedBytes": "0"}, "above 0"),
        ({"failOnDataLoss": "yes"}, "neither true nor false"),
        ({"startingOffsets": "newest"}, "not earliest, latest"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "-3 of t/0"),
        ({"startingOffsets": '{"t":{"zero":3}}'}, "not a partition number"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "not an offset"),
        ({"startingOffsets": '{"t":5}'}, "not an object of partitions"),
        ({"startingOffsets": "[1]"}, "not an object of topics"),
        ({"bootstrap.servers": "h"}, "not host:port"),
        ({"bootstrap.servers": " , "}, "required"),
        ({"subscribe": " ,"}, "names no topic"),
        ({"initialOffsetsPath": "s3://b/x"}, "local or mounted"),
    ],
)
def test_what_is_not_accepted_is_named_with_the_remedy(more: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_options(BASE | more)


@pytest.mark.parametrize("value", ["t", "[]", "{}", '{"t":[]}', '{"t":[-1]}', '{"t":[true]}'])
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
        {"initialOffsetsPath": "/p"},
    ],
)
def test_what_only_a_stream_can_do_is_refused_in_a_batch_query(more: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=next(iter(more))):
        check_for_batch(parse_options(BASE | more))


def test_an_end_is_refused_in_a_stream() -> None:
    with pytest.raises(OptionError, match="endingOffsets"):
        check_for_stream(parse_options(BASE | {"endingOffsets": "latest"}))


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
        '  File "x.py", line 3\nstrandline_spark.errors.DataLoss: t/0 is gone; do this\n\tat java'
    )
    assert remedy_line(text) == "t/0 is gone; do this"
    assert remedy_line("java.lang.Error: no") is None
