"""The compiled decoder against aiokafka's parser, on every kind of batch and on damage."""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_broker.storage.cleaner.rebuilt_batch import emptied, with_records
from strandline_proto.batch import (
    CRC_AT,
    Compression,
    build_batch,
    iter_headers,
    prefix,
    raw_records,
    read_header,
)
from strandline_proto.decompression import Bound
from strandline_proto.errors import CorruptMessage, RecordTooLarge, UnsupportedVersion, WireError
from strandline_spark.source.decode import OPTION, RangeDecoder
from strandline_spark.source.schema import BATCH_META, HEADERS, PLAIN, arrow_schema
from support.aborted_logs import STEPS, built
from support.examples import examples
from support.fake_broker_sync import resealed
from support.hostile import GIB, batch_of, bytes_added, zstd_bomb
from support.spark_batches import MadeBatch, MadeRecord, Row, build, lay_out

_BYTES = st.none() | st.binary(max_size=40)
_HEADERS = st.lists(st.tuples(st.text(max_size=8), _BYTES), max_size=3)
_RECORDS = st.builds(
    MadeRecord,
    key=_BYTES,
    value=_BYTES | st.binary(min_size=200, max_size=400),
    headers=_HEADERS,
    timestamp_ms=st.integers(0, 1 << 45),
    gap=st.sampled_from([0, 0, 0, 2]),
)
_BATCHES = st.builds(
    MadeBatch,
    records=st.lists(_RECORDS, min_size=1, max_size=12),
    codec=st.sampled_from(list(Compression)),
    control=st.sampled_from([False, False, False, True]),
    append_time=st.booleans(),
    gap=st.sampled_from([0, 0, 3]),
    epoch_step=st.sampled_from([0, 0, 1]),
)
_LOGS = st.lists(_BATCHES, min_size=1, max_size=6)


def decoded(decoder: RangeDecoder, *messages: bytes) -> list[Row]:
    """What the decoder yields, as aiokafka's rows."""
    rows: list[Row] = []
    for message in messages:
        for batch in decoder.decode(message):
            assert batch.schema.equals(arrow_schema(PLAIN + HEADERS))
            batch.validate(full=True)
            rows += map(_row, batch.to_pylist(maps_as_pydicts=None), _millis(batch))
    return rows


def _millis(batch: Any) -> list[int]:
    return [us // 1000 for us in batch.column("timestamp").view(pa.int64()).to_pylist()]


def _row(row: dict[str, Any], timestamp: int) -> Row:
    headers = row["headers"]
    return (
        row["offset"],
        timestamp,
        row["timestampType"],
        row["leaderEpoch"],
        row["key"],
        row["value"],
        None if headers is None else [(h["key"], h["value"]) for h in headers],
    )


def new_decoder(start: int, stop: int) -> RangeDecoder:
    return RangeDecoder("t", 3, start, stop, columns=PLAIN + HEADERS)


@settings(max_examples=examples(150))
@given(_LOGS, st.data())
def test_any_range_of_any_log_decodes_as_aiokafka_reads_it(
    batches: list[MadeBatch], data: st.DataObject
) -> None:
    log = lay_out(batches, base_offset=1000)
    start = data.draw(st.integers(1000, log.end_offset))
    stop = data.draw(st.integers(start, log.end_offset))
    cut = data.draw(st.sampled_from([0, *log.starts]))
    decoder = new_decoder(start, stop)

    # The range arrives in two messages, cut between two batches.
    rows = decoded(decoder, log.data[:cut], log.data[cut:])
    decoder.finish(log.end_offset)

    assert rows == [row for row in log.rows if start <= row[0] < stop]
    assert decoder.position == stop
    assert decoder.rows == len(rows)
    assert decoder.rows + decoder.skipped == stop - start


@given(STEPS, st.integers(0, 40), st.integers(1, 40))
def test_aborted_records_are_skipped_offsets(
    plan: list[tuple[str, int, int]], start: int, length: int
) -> None:
    log = built(plan)
    stop = min(log.stable_end, start + length)
    run = [
        (at, h)
        for at, h in iter_headers(log.data)
        if h.next_offset > start and h.base_offset < stop
    ]
    decoder = new_decoder(start, max(start, stop))
    if not run:
        return
    last_at, last = run[-1]
    message = log.data[run[0][0] : last_at + last.size]
    offsets = [
        offset
        for batch in decoder.decode(message, log.index(start, last.next_offset))
        for offset in batch.column("offset").to_pylist()
    ]
    decoder.finish(last.next_offset)
    assert offsets == [
        offset
        for base, end, producer in log.owner
        for offset in range(max(base, start), min(end, stop))
        if not log.is_hidden(base, producer)
    ]
    assert decoder.rows + decoder.skipped == decoder.position - start


@settings(max_examples=examples(50))
@given(_LOGS, st.lists(st.sampled_from(PLAIN + HEADERS + BATCH_META), min_size=1, unique=True))
def test_some_columns_are_what_they_are_among_all(
    batches: list[MadeBatch], some: list[str]
) -> None:
    log = lay_out(batches, base_offset=0)

    def table(columns: tuple[str, ...]) -> Any:
        decoder = RangeDecoder("t", 3, 0, log.end_offset, columns=columns)
        return pa.Table.from_batches(decoder.decode(log.data), schema=arrow_schema(columns))

    assert table(tuple(some)).equals(table(PLAIN + HEADERS + BATCH_META).select(some))


def test_what_a_producer_wrote_into_its_batches_comes_with_each_record() -> None:
    data = bytearray()
    for base, (producer, epoch, sequence) in enumerate([(7, 2, 40), (-1, -1, -1)]):
        batch = build_batch(
            [(b"k", b"v")] * 2,
            timestamp_ms=5,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        data += prefix(2 * base, len(batch) - 12, 0) + batch[16:]
    decoder = RangeDecoder("t", 3, 0, 4, columns=("offset", *BATCH_META))
    (found,) = decoder.decode(bytes(data))
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        *((0, 7, 2, 40), (1, 7, 2, 40)),
        *((2, -1, -1, -1), (3, -1, -1, -1)),
    ]


@settings(max_examples=examples(100))
@given(_LOGS, st.data())
def test_a_message_that_is_cut_off_inside_a_batch_is_an_error(
    batches: list[MadeBatch], data: st.DataObject
) -> None:
    log = lay_out(batches, base_offset=0)
    size = data.draw(st.integers(1, len(log.data) - 1).filter(lambda n: n not in log.starts))
    with pytest.raises(CorruptMessage):
        decoded(new_decoder(0, log.end_offset), log.data[:size])


@settings(max_examples=examples(150))
@given(_BATCHES, st.data())
def test_a_flipped_bit_that_the_checksum_covers_is_an_error(
    made: MadeBatch, data: st.DataObject
) -> None:
    log = lay_out([made], base_offset=0)
    at = data.draw(st.integers(CRC_AT, len(log.data) - 1))
    damaged = bytearray(log.data)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptMessage, match="CRC"):
        decoded(new_decoder(0, log.end_offset), bytes(damaged))


@settings(max_examples=examples(300))
@given(_BATCHES.filter(lambda made: made.codec == 0 and not made.control), st.data())
def test_records_that_contradict_their_format_never_crash_the_walk(
    made: MadeBatch, data: st.DataObject
) -> None:
    # The checksum is made to fit again, so that the walk itself meets the damage.
    log = lay_out([made], base_offset=0)
    damaged = bytearray(log.data)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(57, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    decoder = new_decoder(0, log.end_offset)
    try:
        rows = decoded(decoder, resealed(damaged))
    except WireError:
        return
    assert len(rows) == decoder.rows <= log.end_offset


def _plain(count: int, *, codec: int = 0, first: int = 0) -> MadeBatch:
    records = [MadeRecord(b"%d" % i, b"v%d" % i, [], 0) for i in range(first, first + count)]
    return MadeBatch(records, codec=codec)


def test_compressed_and_plain_batches_of_one_message_come_out_in_offset_order() -> None:
    codecs = [Compression.ZSTD, 0, Compression.LZ4, Compression.GZIP, 0, Compression.SNAPPY]
    log = lay_out([_plain(5, codec=c, first=5 * i) for i, c in enumerate(codecs)], base_offset=0)
    rows = decoded(new_decoder(0, 30), log.data)
    assert [row[0] for row in rows] == list(range(30))
    assert [row[4] for row in rows] == [b"%d" % i for i in range(30)]


def test_what_decompresses_to_more_than_a_group_is_yielded_in_several_batches() -> None:
    big = MadeBatch([MadeRecord(None, bytes(3 << 20), [], 0)] * 2, codec=Compression.ZSTD)
    log = lay_out([big] * 4, base_offset=0)
    decoder = new_decoder(0, 8)
    batches = list(decoder.decode(log.data))
    assert [batch.num_rows for batch in batches] == [4, 4]
    assert len(log.data) < 100_000


def test_a_column_without_nulls_and_one_of_nulls_only_are_both_right() -> None:
    log = lay_out([MadeBatch([MadeRecord(None, b"v", [], 0)] * 3)], base_offset=0)
    (batch,) = new_decoder(0, 3).decode(log.data)
    assert batch.column("key").null_count == 3
    assert batch.column("value").null_count == 0


def test_a_timestamp_outside_of_sparks_range_is_set_to_its_end() -> None:
    log = lay_out([MadeBatch([MadeRecord(None, b"", [], (1 << 62))])], base_offset=0)
    (batch,) = new_decoder(0, 1).decode(log.data)
    assert batch.column("timestamp").view(pa.int64())[0].as_py() > (1 << 62)


def test_a_header_key_that_is_not_utf8_is_repaired_rather_than_refused() -> None:
    log = lay_out([MadeBatch([MadeRecord(None, b"", [("kk", b"x")], 0)])], base_offset=0)
    damaged = bytearray(log.data)
    damaged[damaged.rindex(b"kk")] = 0xFF
    (row,) = decoded(new_decoder(0, 1), resealed(damaged))
    assert row[6] == [("�k", b"x")]


def test_offsets_that_go_back_between_batches_are_an_error() -> None:
    first = lay_out([_plain(3)], base_offset=10)
    second = lay_out([_plain(3)], base_offset=11)
    with pytest.raises(CorruptMessage, match="offsets go back"):
        decoded(new_decoder(10, 20), first.data + second.data)


def test_leader_epochs_that_go_back_are_an_error_also_between_messages() -> None:
    later = lay_out([MadeBatch(_plain(3).records, epoch_step=5)], base_offset=0)
    earlier = lay_out([MadeBatch(_plain(3).records, epoch_step=4)], base_offset=3)
    decoder = new_decoder(0, 6)
    decoded(decoder, later.data)
    with pytest.raises(CorruptMessage, match="epochs go back"):
        decoded(decoder, earlier.data)


def test_a_dense_batch_that_lacks_a_record_is_an_error_not_a_hole() -> None:
    # Two records that both claim offset delta 1: count and span agree, offset 0 is not there.
    data = bytearray(lay_out([_plain(2)], base_offset=0).data)
    first_record = 61
    assert data[first_record + 3] == 0
    data[first_record + 3] = 2
    with pytest.raises(CorruptMessage):
        decoded(new_decoder(0, 2), resealed(data))


def test_bytes_after_the_last_record_of_a_batch_are_an_error() -> None:
    data = bytearray(lay_out([_plain(2)], base_offset=0).data) + b"\0"
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptMessage, match="do not parse"):
        decoded(new_decoder(0, 2), resealed(data))


def test_a_record_count_that_cannot_fit_allocates_nothing() -> None:
    data = bytearray(lay_out([_plain(2)], base_offset=0).data)
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    data[23:27] = (2**31 - 2).to_bytes(4, "big")
    with pytest.raises(CorruptMessage, match="cannot be in"):
        decoded(new_decoder(0, 2), resealed(data))


def test_a_codec_that_is_not_known_is_refused() -> None:
    data = bytearray(build(_plain(1))[0])
    data[22] |= 0x05
    with pytest.raises(UnsupportedVersion, match="compression type 5"):
        decoded(new_decoder(0, 1), resealed(data))


def test_a_batch_that_unpacks_beyond_the_bound_is_named_with_the_option() -> None:
    log = lay_out(
        [_plain(1), MadeBatch([MadeRecord(None, bytes(3000), [], 0)], codec=4)], base_offset=7
    )
    decoder = RangeDecoder("t", 3, 7, 9, columns=PLAIN + HEADERS, bound=Bound(3000, OPTION))
    with pytest.raises(RecordTooLarge, match=r"^t:3 at offset 8: .* raise .* maxDecompressedBytes"):
        decoded(decoder, log.data)
    assert decoder.position == 7
    decoder = RangeDecoder("t", 3, 7, 9, columns=PLAIN + HEADERS, bound=Bound(3020, OPTION))
    assert len(decoded(decoder, log.data)) == 2


UNPACK = """
from strandline_spark.source.decode import RangeDecoder
from strandline_spark.source.schema import HEADERS, PLAIN
def prepare():
    import cramjam
def act(data):
    list(RangeDecoder("t", 3, 0, 9, columns=PLAIN + HEADERS).decode(data))
"""


def test_a_batch_that_unpacks_to_gigabytes_costs_a_task_little_memory() -> None:
    added, said = bytes_added(UNPACK, batch_of(zstd_bomb(2 * GIB), Compression.ZSTD))
    assert said.startswith("RecordTooLarge: t:3 at offset 0: ")
    assert added < 128_000_000


def test_another_message_format_is_refused() -> None:
    data = bytearray(build(_plain(1))[0])
    data[16] = 1
    with pytest.raises(UnsupportedVersion, match="message format 1"):
        decoded(new_decoder(0, 1), bytes(data))


@pytest.mark.parametrize("codec", [c for c in Compression if c != Compression.NONE])
def test_a_compressed_body_that_is_cut_short_is_an_error(codec: Compression) -> None:
    data = bytearray(build(_plain(50, codec=codec))[0])[:-9]
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptMessage):
        decoded(new_decoder(0, 50), resealed(data))


def test_what_a_cleaning_leaves_of_batches_is_read_with_its_own_timestamps() -> None:
    """Bare headers, batches that begin with a gap, and a horizon in place of the base timestamp."""
    records = [MadeRecord(b"k%d" % i, b"v", [], 1000 + i, 0) for i in range(3)]
    plain = MadeBatch(records, Compression.ZSTD, False, False, 0, 0)
    log = lay_out([plain, plain, plain], base_offset=10)
    batches = [
        (read_header(log.data, at), log.data[at : at + read_header(log.data, at).size])
        for at in (0, *log.starts)
        if at < len(log.data)
    ]
    first, second, third = dict.fromkeys(batches)
    kept = list(raw_records(second[1], second[0]))[1:]
    message = (
        emptied(first[0])[1]
        + with_records(second[0], kept, delete_horizon_ms=1 << 45)[1]
        + emptied(third[0])[1]
    )
    decoder = new_decoder(10, 19)
    rows = decoded(decoder, message)
    decoder.finish(19)
    assert [row[:2] for row in rows] == [(14, 1001), (15, 1002)]
    assert (decoder.rows, decoder.skipped, decoder.position) == (2, 7, 19)
    only_bare = new_decoder(10, 13)
    assert decoded(only_bare, emptied(first[0])[1]) == []
    only_bare.finish(13)
    assert (only_bare.rows, only_bare.skipped) == (0, 3)
