"""RecordBatch v2: what is accepted and refused, and the arithmetic of offsets and sequences."""

import struct

import pytest
from crc32c import crc32c

from strandline_proto import batch
from strandline_proto.batch import SEQUENCE_MAX, Compression
from strandline_proto.errors import CorruptMessage, InvalidRecord, UnsupportedVersion

NOW_MS = 1_700_000_000_000


def three_records(compression: Compression = Compression.NONE) -> bytearray:
    records = [(b"k", b"v" * 100), (None, b"w" * 100), (b"k", None)]
    return bytearray(batch.build_batch(records, timestamp_ms=NOW_MS, compression=compression))


def resealed(data: bytearray) -> bytearray:
    """The same bytes with the checksum that belongs to them."""
    struct.pack_into(">I", data, batch.CRC_AT, crc32c(memoryview(data)[batch.ATTRIBUTES_AT :]))
    return data


def test_a_built_batch_says_what_went_in() -> None:
    header = batch.check_batch(three_records())
    assert (header.base_offset, header.leader_epoch, header.magic) == (0, -1, 2)
    assert (header.record_count, header.last_offset, header.next_offset) == (3, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.last_sequence == -1
    assert not any((header.is_control, header.is_transactional, header.is_log_append_time))


@pytest.mark.parametrize("compression", list(Compression))
def test_every_codec_gives_the_records_back(compression: Compression) -> None:
    data = three_records(compression)
    header = batch.check_batch(data)
    assert header.compression == compression
    assert [
        (r.offset, r.timestamp, r.key, r.value) for r in batch.read_records(data, 0, header)
    ] == [
        (0, NOW_MS, b"k", b"v" * 100),
        (1, NOW_MS, None, b"w" * 100),
        (2, NOW_MS, b"k", None),
    ]


def test_a_producers_identity_stands_in_the_header() -> None:
    data = batch.build_batch(
        [(None, b"a"), (None, b"b")],
        timestamp_ms=NOW_MS,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=SEQUENCE_MAX,
    )
    header = batch.check_batch(data)
    assert (header.producer_id, header.producer_epoch) == (2**40, 7)
    assert (header.base_sequence, header.last_sequence) == (SEQUENCE_MAX, 0)


@pytest.mark.parametrize("size", [0, 1, 12, batch.HEADER_SIZE - 1])
def test_fewer_bytes_than_a_header_are_refused(size: int) -> None:
    with pytest.raises(CorruptMessage, match=f"{size} bytes"):
        batch.check_batch(three_records()[:size])


@pytest.mark.parametrize("change", [-1, 1])
def test_a_length_that_is_not_the_requests_is_refused(change: int) -> None:
    data = three_records()
    cut = data[:-1] if change < 0 else data + b"\0"
    with pytest.raises(CorruptMessage, match="batchLength says"):
        batch.check_batch(cut)


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_another_message_format_is_refused_before_anything_else_is_believed(magic: int) -> None:
    data = three_records()
    struct.pack_into(">b", data, 16, magic)
    with pytest.raises(UnsupportedVersion, match="magic 2"):
        batch.check_batch(data)


@pytest.mark.parametrize("at", [batch.CRC_AT, batch.ATTRIBUTES_AT, batch.HEADER_SIZE, -1])
def test_a_flipped_bit_is_refused(at: int) -> None:
    data = three_records()
    data[at] ^= 0x10
    with pytest.raises(CorruptMessage, match="CRC-32C"):
        batch.check_batch(data)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused_although_the_checksum_is_right(codec: int) -> None:
    data = three_records()
    struct.pack_into(">h", data, batch.ATTRIBUTES_AT, codec)
    with pytest.raises(UnsupportedVersion, match=f"compression type {codec}"):
        batch.check_batch(resealed(data))


@pytest.mark.parametrize(("count", "delta"), [(0, -1), (0, 2), (-1, -2), (3, 1), (3, 3), (2, 2)])
def test_counts_that_contradict_each_other_are_refused(count: int, delta: int) -> None:
    data = three_records()
    struct.pack_into(">i", data, 23, delta)
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(InvalidRecord, match=f"{count} records"):
        batch.check_batch(resealed(data))


@pytest.mark.parametrize(
    ("bit", "name"),
    [(0x08, "is_log_append_time"), (0x10, "is_transactional"), (0x20, "is_control")],
)
def test_each_attribute_bit_means_one_thing(bit: int, name: str) -> None:
    data = three_records(Compression.ZSTD)
    struct.pack_into(">h", data, batch.ATTRIBUTES_AT, bit | Compression.ZSTD)
    header = batch.read_header(data)
    meanings = ("is_log_append_time", "is_transactional", "is_control")
    assert {m for m in meanings if getattr(header, m)} == {name}
    assert header.compression == Compression.ZSTD


@pytest.mark.parametrize(
    ("sequence", "by", "expected"),
    [(0, 0, 0), (5, 3, 8), (SEQUENCE_MAX, 1, 0), (SEQUENCE_MAX - 1, 3, 1)],
)
def test_sequences_wrap_after_their_largest_value(sequence: int, by: int, expected: int) -> None:
    assert batch.add_sequence(sequence, by) == expected


def test_a_run_of_batches_is_walked_and_a_cut_one_at_its_end_is_left() -> None:
    one = bytes(three_records())
    run = one + one
    assert [at for at, _ in batch.iter_headers(run)] == [0, len(one)]
    assert [at for at, _ in batch.iter_headers(run, len(one))] == [len(one)]
    for cut in (1, len(one) - batch.HEADER_SIZE, len(one) - 1):
        assert [at for at, _ in batch.iter_headers(run[:-cut])] == [0]
    assert list(batch.iter_headers(b"")) == []


def test_a_batch_ends_where_its_checksum_holds_and_nowhere_else() -> None:
    one = bytes(three_records())
    run = memoryview(one + one)
    assert batch.checked_end(run, 0) == len(one)
    assert batch.checked_end(run, len(one)) == len(run)
    assert batch.checked_end(run, len(run)) is None
    for end in (0, batch.HEADER_SIZE - 1, batch.HEADER_SIZE, len(one) - 1):
        assert batch.checked_end(run[:end], 0) is None
    assert batch.checked_end(run, 1) is None
    for at in (batch.CRC_AT, batch.ATTRIBUTES_AT, len(one) - 1):
        damaged = bytearray(one)
        damaged[at] ^= 1
        assert batch.checked_end(memoryview(damaged), 0) is None
    for length in (-(2**31), -1, 0, batch.HEADER_SIZE - batch.LENGTH_OVERHEAD - 1, 2**31 - 1):
        data = bytearray(one)
        struct.pack_into(">i", data, 8, length)
        assert batch.checked_end(memoryview(data), 0) is None


@pytest.mark.parametrize("length", [-1, 0, batch.HEADER_SIZE - batch.LENGTH_OVERHEAD - 1])
def test_a_length_that_no_batch_can_have_ends_the_walk_with_an_error(length: int) -> None:
    data = three_records()
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(CorruptMessage, match="impossible"):
        list(batch.iter_headers(data))


def test_the_smallest_length_that_a_batch_can_have_is_walked() -> None:
    data = three_records()[: batch.HEADER_SIZE]
    struct.pack_into(">i", data, 8, batch.HEADER_SIZE - batch.LENGTH_OVERHEAD)
    assert [header.size for _, header in batch.iter_headers(data)] == [batch.HEADER_SIZE]


def test_the_size_is_known_from_the_first_twelve_bytes() -> None:
    data = bytes(three_records())
    assert batch.batch_size(data[:12]) == len(data)
    assert batch.batch_size(b"xx" + data, 2) == len(data)


def test_headers_of_records_come_back_with_repeated_keys_and_null_values() -> None:
    from aiokafka.record._crecords import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=4096,
    )
    given = [("trace", b"1"), ("trace", None), ("höhe", b"\x00")]
    builder.append(0, NOW_MS, None, b"v", given)
    data = bytes(builder.build())
    (record,) = batch.read_records(data, 0, batch.check_batch(data))
    assert record.headers == tuple(given)


@pytest.mark.parametrize("compression", list(Compression))
def test_records_that_do_not_parse_under_a_right_checksum_are_corrupt(
    compression: Compression,
) -> None:
    data = three_records(compression)
    data[batch.HEADER_SIZE :] = b"\xff" * (len(data) - batch.HEADER_SIZE)
    header = batch.check_batch(resealed(data))
    with pytest.raises(CorruptMessage, match="do not parse"):
        list(batch.read_records(data, 0, header))


@pytest.mark.parametrize("compression", list(Compression))
def test_a_stamped_batch_has_the_leaders_time_for_each_record_and_is_sound(
    compression: Compression,
) -> None:
    data = bytes(three_records(compression))
    stamped, header = batch.stamp(data, batch.check_batch(data), NOW_MS + 5)
    assert batch.check_batch(stamped) == header
    assert header.is_log_append_time
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 5)
    assert header.compression == compression
    assert stamped[batch.HEADER_SIZE :] == data[batch.HEADER_SIZE :]
    records = list(batch.read_records(stamped, 0, header))
    assert [r.timestamp for r in records] == [NOW_MS + 5] * 3
    assert [r.key for r in records] == [b"k", None, b"k"]
