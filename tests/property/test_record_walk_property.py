"""The compiled walk and its twin give one answer to any bytes, and what they pass every reader
reads.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_proto import record_walk
from strandline_proto.batch import Compression, check_batch, read_records
from strandline_proto.record_walk import INT64_MAX, INT64_MIN, Fault, walk, walk_in_python
from support.examples import examples
from support.hostile import batch_of
from support.record_bytes import Fields, record
from support.record_runs import int64, runs, sound, times

compiled = pytest.mark.skipif(not record_walk.IS_COMPILED, reason="no compiled walk here")

ASKED = (st.integers(-100, 100) | int64, times, times, st.booleans())


@compiled
@settings(max_examples=examples(150))
@given(runs() | st.tuples(st.binary(max_size=80), st.integers(0, 9)), st.integers(0, 3), *ASKED)
def test_both_walks_give_one_answer(
    run: tuple[bytes, int], at: int, base: int, earliest: int, latest: int, needs_key: bool
) -> None:
    records, count = run
    count = max(-(2**63), min(count, INT64_MAX))
    arguments = (count, base, earliest, latest, needs_key)
    # Behind other bytes and before others, which are not of the batch: no byte of them is read.
    framed = memoryview(b"\xff" * at + records + b"\xff" * 9)[: at + len(records)]
    assert walk(framed, at, *arguments) == walk_in_python(framed, at, *arguments)


@compiled
@settings(max_examples=10)
@given(sound(0), sound(1))
def test_both_walks_give_one_answer_to_every_flipped_bit(first: bytes, second: bytes) -> None:
    run = bytearray(first + second)
    for bit in range(8 * len(run)):
        run[bit // 8] ^= 1 << bit % 8
        arguments = (run, 0, 2, 100, 40, 160, True)
        assert walk(*arguments) == walk_in_python(*arguments)
        run[bit // 8] ^= 1 << bit % 8


@compiled
@settings(max_examples=examples(150))
@given(st.binary(max_size=10))
def test_both_walks_call_the_same_bytes_text(text: bytes) -> None:
    records = record(Fields(headers=((text, None),)))
    arguments = (records, 0, 1, 0, INT64_MIN, INT64_MAX, False)
    assert walk(*arguments) == walk_in_python(*arguments)


@settings(max_examples=examples(80))
@given(runs())
def test_what_passes_is_what_readers_read(run: tuple[bytes, int]) -> None:
    records, count = run
    if not 0 < count < 100:
        return
    batch = batch_of(records, Compression.NONE, records=count)
    header = check_batch(batch)
    answer = walk(records, 0, count, header.base_timestamp, INT64_MIN, INT64_MAX, False)
    if answer[0] == Fault.SOUND:
        found = list(read_records(batch, 0, header))
        assert [r.offset for r in found] == list(range(count))
        assert max(r.timestamp for r in found) == answer[3]
