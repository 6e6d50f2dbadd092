"""What is unpacked stays within a bound, whatever the bytes say; and it is what went in."""

import os
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

from strandline_proto.batch import check_batch, raw_records, read_records, uncompressed
from strandline_proto.decompression import Bound, Compression, decompress
from strandline_proto.errors import CorruptMessage, RecordTooLarge, UnsupportedVersion
from support.hostile import (
    GIB,
    batch_of,
    bytes_added,
    gzip_bomb,
    lz4_bomb,
    snappy_bomb,
    varint,
    zstd_bomb,
)

ENCODERS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (Compression.GZIP, gzip_encode),
    "snappy": (
        Compression.SNAPPY,
        lambda data: bytes(snappy_encode(data, xerial_compatible=False)),
    ),
    "xerial": (Compression.SNAPPY, snappy_encode),
    "lz4": (Compression.LZ4, lz4_encode),
    "zstd": (Compression.ZSTD, zstd_encode),
}
CODECS = [pytest.param(*pair, id=name) for name, pair in ENCODERS.items()]


@pytest.mark.parametrize(("codec", "encode"), CODECS)
@pytest.mark.parametrize("size", [0, 1, 70_000, 3 << 20])
@pytest.mark.parametrize("filling", [bytes, os.urandom], ids=["zeros", "random"])
def test_what_was_compressed_comes_back_behind_the_callers_room(
    codec: int, encode: Callable[[bytes], bytes], size: int, filling: Callable[[int], bytes]
) -> None:
    data = filling(size)
    assert decompress(encode(data), codec, room=61) == bytes(61) + data


@pytest.mark.parametrize(("codec", "encode"), CODECS)
@pytest.mark.parametrize("size", [100, 300_000])
def test_the_bound_is_the_last_size_that_is_accepted(
    codec: int, encode: Callable[[bytes], bytes], size: int
) -> None:
    body = encode(bytes(size))
    assert decompress(body, codec, Bound(size), room=7) == bytes(size + 7)
    with pytest.raises(RecordTooLarge, match=f"more than {size - 1}; raise the knob"):
        decompress(body, codec, Bound(size - 1, "the knob"), room=7)


@pytest.mark.parametrize(("codec", "encode"), CODECS)
@pytest.mark.parametrize("damage", [RecordTooLarge, CorruptMessage])
def test_whoever_holds_the_error_holds_nothing_of_what_was_unpacked(
    codec: int, encode: Callable[[bytes], bytes], damage: type[Exception]
) -> None:
    body, bound = encode(os.urandom(4 << 20)), Bound(4 << 20)
    if damage is RecordTooLarge:
        bound = Bound((4 << 20) - 1)
    else:
        body = body[:-20]
    tracemalloc.start()
    try:
        with pytest.raises(damage) as held:
            decompress(body, codec, bound)
        assert held.value is not None
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("codec", "encode"), CODECS)
def test_a_stream_that_is_cut_off_is_corrupt_or_shorter(
    codec: int, encode: Callable[[bytes], bytes]
) -> None:
    data = os.urandom(300)
    whole = encode(data)
    for length in range(len(whole)):
        try:
            found = decompress(whole[:length], codec)
        except CorruptMessage:
            continue
        # Java's framing ends where a block ends.
        assert encode is snappy_encode
        assert found == b""


def test_members_of_gzip_follow_each_other_and_zeros_may_fill_up_behind_them() -> None:
    first, second = gzip_encode(b"a" * 9000), gzip_encode(os.urandom(9000))
    whole = decompress(first + second + bytes(9000), Compression.GZIP)
    assert whole[:9000] == b"a" * 9000
    assert len(whole) == 18_000
    with pytest.raises(CorruptMessage):
        decompress(first + bytes(9000) + b"x", Compression.GZIP)


@pytest.mark.parametrize(
    "block",
    [
        b"\x00\x00",
        struct.pack(">i", -1),
        struct.pack(">i", 100) + b"x",
        struct.pack(">i", 2**31 - 1),
    ],
    ids=["half a length", "negative", "cut off", "endless"],
)
def test_a_snappy_block_that_does_not_fit_is_corrupt(block: bytes) -> None:
    with pytest.raises(CorruptMessage, match="no whole snappy stream"):
        decompress(snappy_encode(b"abc") + block, Compression.SNAPPY)


def test_a_codec_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="compression type 5"):
        decompress(b"", 5)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x00" + varint(0) + varint(0) + varint(2**63 - 8), id="key"),
        pytest.param(b"\x00" + varint(0) + varint(0) + varint(-1) + varint(2**63 - 8), id="value"),
        pytest.param(
            b"\x00" + varint(0) + varint(0) + varint(-1) * 2 + varint(1) + varint(2**63 - 70),
            id="header's key",
        ),
        pytest.param(
            b"\x00" + varint(0) + varint(0) + varint(-1) * 2 + varint(2**62), id="headers"
        ),
    ],
)
def test_a_length_near_two_to_the_sixty_third_is_corrupt(body: bytes) -> None:
    data = batch_of(varint(len(body)) + body, Compression.NONE)
    with pytest.raises(CorruptMessage, match="the batch at offset 0 do not parse"):
        list(raw_records(data, check_batch(data)))


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 48])
def test_a_header_that_says_less_than_its_own_size_is_never_given_to_the_parser(
    length: int,
) -> None:
    data = bytearray(batch_of(b"", Compression.NONE))
    struct.pack_into(">i", data, 8, length)
    header = check_batch(batch_of(b"", Compression.NONE))._replace(batch_length=length)
    with pytest.raises(CorruptMessage):
        list(read_records(data, 0, header))


@pytest.mark.parametrize(("codec", "encode"), CODECS)
def test_a_batch_beyond_the_bound_is_named_with_what_raises_it(
    codec: int, encode: Callable[[bytes], bytes]
) -> None:
    data = batch_of(encode(bytes(2000)), Compression(codec))
    header = check_batch(data)._replace(base_offset=77)
    with pytest.raises(RecordTooLarge, match=r"batch at offset 77: .*more than 1999; raise max\.x"):
        list(raw_records(data, header, Bound(1999, "max.x")))
    assert uncompressed(data, header, Bound(2000))[61:] == bytes(2000)


BOMBS = {
    "gzip": (Compression.GZIP, lambda: gzip_bomb(GIB // 2)),
    "snappy": (Compression.SNAPPY, lambda: snappy_bomb(GIB // 4, xerial=False)),
    "xerial": (Compression.SNAPPY, lambda: snappy_bomb(GIB // 4, xerial=True)),
    "lz4": (Compression.LZ4, lambda: lz4_bomb(GIB)),
    "zstd": (Compression.ZSTD, lambda: zstd_bomb(GIB, window_log=20)),
    "zstd with a large window": (Compression.ZSTD, lambda: zstd_bomb(GIB, window_log=27)),
}
UNPACK = """
from strandline_proto.batch import raw_records, read_header
def prepare():
    import aiokafka.record._crecords, aiokafka.errors, cramjam
def act(data):
    return sum(1 for _ in raw_records(data, read_header(data)))
"""


@pytest.mark.parametrize(("codec", "bomb"), [pytest.param(*b, id=n) for n, b in BOMBS.items()])
def test_a_small_batch_that_unpacks_to_gigabytes_costs_little_memory(
    codec: Compression, bomb: Callable[[], bytes]
) -> None:
    added, said = bytes_added(UNPACK, batch_of(bomb(), codec))
    assert said.startswith("RecordTooLarge: ")
    assert added < 128_000_000
