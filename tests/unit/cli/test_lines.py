"""Lines of standard input: cut right whatever the portions, and counted to the last one."""

import asyncio
import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_cli.errors import ClusterError
from strandline_cli.records.line_producer import RECORD_BYTES_MAX, Counts, LineProducer, _Portion
from strandline_cli.records.line_records import LineParser
from strandline_cli.records.stdin_lines import LINE_BYTES_MAX, LineSplitter, read_lines


def _lines_of(portions: list[bytes]) -> list[bytes]:
    splitter = LineSplitter()
    lines = [line for portion in portions for line in splitter.feed(portion)]
    return lines + splitter.finish()


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_lines_do_not_depend_on_how_the_input_is_cut(text: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    portions = [text[a:b] for a, b in pairwise(edges)]
    expected = text.split(b"\n")
    assert _lines_of(portions) == (expected if expected[-1] else expected[:-1])


def test_a_last_line_without_a_newline_is_a_line() -> None:
    assert _lines_of([b"a\nb"]) == [b"a", b"b"]


def test_empty_lines_are_lines() -> None:
    assert _lines_of([b"\n\na\n"]) == [b"", b"", b"a"]


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    splitter = LineSplitter()
    splitter.feed(b"x" * LINE_BYTES_MAX)
    with pytest.raises(ClusterError, match="longer than 64 MiB"):
        splitter.feed(b"x")


def test_a_pipe_is_read_to_its_end() -> None:
    readable, writable = os.pipe()
    text = b"".join(b"line %d\n" % n for n in range(5000))

    async def read() -> list[bytes]:
        os.write(writable, text)
        os.close(writable)
        return [line async for lines in read_lines(readable) for line in lines]

    lines = asyncio.run(read())
    os.close(readable)
    assert lines == text.splitlines()


def test_a_descriptor_that_cannot_be_read_is_one_line_of_error() -> None:
    readable, writable = os.pipe()

    async def read() -> None:
        async for _ in read_lines(writable):
            pass

    with pytest.raises(ClusterError, match="cannot read standard input"):
        asyncio.run(read())
    os.close(readable)
    os.close(writable)


def _producer(separator: bytes | None) -> LineProducer:
    return LineProducer(bootstrap="a:1", topic="t", parse=LineParser(separator=separator))


def test_without_a_separator_a_line_is_a_value() -> None:
    assert _producer(None).records([b"a:b"]) == [b"a:b"]


def test_a_separator_parts_key_and_value_at_its_first_place() -> None:
    lines = [b"k:v:w", b":v", b"k:", b"no separator"]
    expected = [(b"k", b"v:w"), (b"", b"v"), (b"k", b""), (None, b"no separator")]
    assert _producer(b":").records(lines) == expected


def test_a_line_above_the_largest_record_is_counted_and_the_others_are_sent() -> None:
    producer = _producer(None)
    longest = b"x" * RECORD_BYTES_MAX
    assert producer.records([longest, longest + b"x", b"b"]) == [longest, b"b"]
    assert producer.counts.not_written == 1
    assert "RecordTooLarge" in producer.counts.summary()


def test_counts_say_how_many_lines_may_have_been_written() -> None:
    counts = Counts(acknowledged=5)
    assert counts.all_acknowledged
    counts.failed("Cause: one", not_written=2, unknown=3)
    counts.failed("Cause: two")
    assert not counts.all_acknowledged
    assert counts.summary() == (
        "5 of 10 lines were not acknowledged, 3 of these may have been written all the same:"
        " Cause: one"
    )
    assert counts.document()["not_acknowledged"] == 5


def test_an_input_that_was_not_read_to_its_end_is_a_failure() -> None:
    counts = Counts(acknowledged=5, stopped_early=True)
    assert not counts.all_acknowledged
    assert "the rest of the input was not read" in counts.summary()


def test_an_input_that_was_cut_short_counts_what_nobody_waits_for_any_more() -> None:
    producer = _producer(None)
    producer.counts.acknowledged = 4
    waiting = _Portion([b"a", b"b", b"c"])
    taken = iter(waiting)
    assert [next(taken), next(taken)] == [b"a", b"b"]
    producer._under_way.add(waiting)
    producer.give_up()
    assert producer.counts.told() == (
        "4 lines were acknowledged, 1 may have been written, 2 were not written,"
        " the rest of the input was not sent"
    )
    assert producer.counts.stopped_early


def test_a_record_that_was_refused_has_not_been_handed_over() -> None:
    portion = _Portion([b"refused", b"b"])
    next(iter(portion))
    assert (portion.handed_over_count, portion.left) == (0, 2)


@pytest.mark.parametrize(
    ("there", "known"), [(frozenset({0, 1, 2}), "0 to 2"), (frozenset({0}), "0 alone")]
)
def test_a_partition_that_is_not_there_is_refused_by_its_number(
    there: frozenset[int], known: str
) -> None:
    producer = LineProducer(bootstrap="a:1", topic="t", partition=9)
    with pytest.raises(ClusterError, match=f"has no partition 9, it has {known}: nothing was sent"):
        producer._check_partition(there)
