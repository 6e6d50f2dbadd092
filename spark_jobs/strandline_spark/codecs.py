"""Decompression of the records of one batch, by the codec number in its attributes."""

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam

from strandline_proto.batch import Compression
from strandline_proto.errors import CorruptMessage, UnsupportedVersion

# Java's snappy stream: this magic, two versions, then blocks, each after its length.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16
_BLOCK_LENGTH: Final = struct.Struct(">i")
_GZIP_WINDOW: Final = 31


def _gzip(body: memoryview) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    out = stream.decompress(body) + stream.flush()
    if not stream.eof:
        raise ValueError("the gzip stream is cut off")
    return out


def _snappy(body: memoryview) -> bytes:
    if bytes(body[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(body))
    at, blocks = _XERIAL_HEADER_SIZE, []
    while at < len(body):
        (size,) = _BLOCK_LENGTH.unpack_from(body, at)
        at += _BLOCK_LENGTH.size
        if size < 0 or at + size > len(body):
            raise ValueError(f"a snappy block of {size} bytes does not fit")
        blocks.append(bytes(cramjam.snappy.decompress_raw(body[at : at + size])))
        at += size
    return b"".join(blocks)


def _lz4(body: memoryview) -> Any:
    return cramjam.lz4.decompress(body)


def _zstd(body: memoryview) -> Any:
    return cramjam.zstd.decompress(body)


_CODECS: Final[dict[int, Callable[[memoryview], Any]]] = {
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}


def decompress(body: memoryview, codec: int) -> memoryview:
    """The records in `body`. Raises CorruptMessage if it is no such stream, UnsupportedVersion for
    a codec not known.
    """
    codec_function = _CODECS.get(codec)
    if codec_function is None:
        raise UnsupportedVersion(f"compression type {codec} is not known")
    try:
        return memoryview(codec_function(body)).cast("B")
    except (cramjam.DecompressionError, zlib.error, ValueError, struct.error) as why:
        raise CorruptMessage(
            f"the {Compression(codec).name.lower()} records do not decompress: {why}"
        ) from why
