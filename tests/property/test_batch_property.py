"""Any records survive the trip through a batch, and no damage to it goes unseen."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_proto import batch
from strandline_proto.batch import Compression
from strandline_proto.errors import CorruptMessage, UnsupportedVersion

fields = st.none() | st.binary(max_size=64)
record_lists = st.lists(st.tuples(fields, fields), min_size=1, max_size=20)
timestamps = st.integers(min_value=0, max_value=2**52)


@given(
    records=record_lists,
    timestamp_ms=timestamps,
    compression=st.sampled_from(Compression),
    base_offset=st.integers(min_value=0, max_value=2**60),
    leader_epoch=st.integers(min_value=0, max_value=2**31 - 1),
)
def test_records_come_back_at_the_offsets_that_the_leader_assigned(
    records: list[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    compression: Compression,
    base_offset: int,
    leader_epoch: int,
) -> None:
    sent = batch.build_batch(records, timestamp_ms=timestamp_ms, compression=compression)
    length = batch.check_batch(sent).batch_length
    stored = batch.prefix(base_offset, length, leader_epoch) + sent[16:]
    header = batch.check_batch(stored)
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)
    assert header.next_offset == base_offset + len(records)
    read = [(r.offset, r.timestamp, r.key, r.value) for r in batch.read_records(stored, 0, header)]
    assert read == [
        (base_offset + i, timestamp_ms, key, value) for i, (key, value) in enumerate(records)
    ]


@given(records=record_lists, data=st.data())
def test_one_changed_byte_behind_the_leader_epoch_is_always_refused(
    records: list[tuple[bytes | None, bytes | None]], data: st.DataObject
) -> None:
    sound = batch.build_batch(records, timestamp_ms=1)
    at = data.draw(st.integers(min_value=16, max_value=len(sound) - 1))
    damaged = bytearray(sound)
    damaged[at] ^= data.draw(st.integers(min_value=1, max_value=255))
    with pytest.raises((CorruptMessage, UnsupportedVersion)):
        batch.check_batch(damaged)


@given(junk=st.binary(max_size=200))
def test_garbage_is_refused_and_never_crashes(junk: bytes) -> None:
    with pytest.raises((CorruptMessage, UnsupportedVersion)):
        batch.check_batch(junk)


@given(junk=st.binary(max_size=300), at=st.integers(min_value=0, max_value=310))
def test_walking_garbage_ends_or_says_that_it_is_corrupt(junk: bytes, at: int) -> None:
    try:
        for position, header in batch.iter_headers(junk, at):
            assert position + header.size <= len(junk)
    except CorruptMessage:
        pass


@given(runs=st.lists(record_lists, min_size=1, max_size=4), cut=st.integers(min_value=0))
def test_a_cut_run_yields_exactly_its_whole_batches(
    runs: list[list[tuple[bytes | None, bytes | None]]], cut: int
) -> None:
    parts = [batch.build_batch(records, timestamp_ms=1) for records in runs]
    whole = b"".join(parts)
    kept = whole[: len(whole) - cut % (len(whole) + 1)]
    expected = []
    end = 0
    for part in parts:
        if end + len(part) > len(kept):
            break
        expected.append(end)
        end += len(part)
    assert [at for at, _ in batch.iter_headers(kept)] == expected


@given(
    sequence=st.integers(min_value=0, max_value=batch.SEQUENCE_MAX),
    by=st.integers(min_value=0, max_value=batch.SEQUENCE_MAX),
)
def test_sequences_count_modulo_two_to_the_thirty_first(sequence: int, by: int) -> None:
    assert batch.add_sequence(sequence, by) == (sequence + by) % 2**31


@given(header=st.binary(min_size=61, max_size=61))
def test_a_header_is_read_from_anywhere_in_a_buffer(header: bytes) -> None:
    read = batch.read_header(b"padding" + header, 7)
    assert read == batch.read_header(memoryview(header))
    assert read.base_offset == struct.unpack(">q", header[:8])[0]


@given(
    compression=st.sampled_from(Compression),
    changes=st.lists(st.tuples(st.integers(57, 400), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_a_damaged_body_gives_records_or_a_corrupt_message_and_nothing_else(
    compression: Compression, changes: list[tuple[int, int]]
) -> None:
    records = [(b"key", b"v" * 100), (None, b"w" * 30), (b"k", None)] * 3
    damaged = bytearray(batch.build_batch(records, timestamp_ms=1, compression=compression))
    for at, value in changes:
        damaged[57 + at % (len(damaged) - 57)] = value
    with contextlib.suppress(CorruptMessage):
        list(batch.read_records(damaged, 0, batch.read_header(damaged)))
