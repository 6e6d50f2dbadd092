"""Decompression of a batch's records, within a bound.

A few kilobytes can unpack to gigabytes, and any client that may write to a topic chooses them. The
size in the data is therefore compared with the bound before memory is allocated for it. gzip is
unpacked piece by piece. snappy states its length first. zstd and lz4 write into a buffer that grows
up to the bound, and then stop. Memory stays below twice the bound and a little: zstd keeps a window
of its output, and the sender chooses the window's size.
"""

from __future__ import annotations

import enum
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline_proto.errors import CorruptMessage, RecordTooLarge, UnsupportedVersion

if TYPE_CHECKING:
    from collections.abc import Callable

Buffer = bytes | bytearray | memoryview


class Compression(enum.IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DECOMPRESSED_BYTES_MAX: Final = 32 << 20
"""Default bound, for servers and clients. No batch that a broker can accept is larger when it is
not compressed.
"""
DECOMPRESSED_BYTES_LIMIT: Final = 1 << 30
"""The highest bound that can be configured. A process that unpacks a batch holds at most twice as
much.
"""


class Bound(NamedTuple):
    """The limit on the unpacked records of one batch, and the words that say how to raise it."""

    max_bytes: int = DECOMPRESSED_BYTES_MAX
    option: str = "the topic's max.message.decompressed.bytes"


DEFAULT_BOUND: Final = Bound()


class _TooLong(Exception):
    """The data is longer than the bound allows."""


# Java's snappy stream: this magic, two versions, then blocks, each after its length.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16
_BLOCK_LENGTH: Final = struct.Struct(">i")
_GZIP_WINDOW: Final = 31
_GZIP_PIECE: Final = 4 << 10
"""Bytes passed to zlib at a time. It copies the rest of them at the end of each member, and a
member may have 20 bytes.
"""
_GZIP_OUT: Final = 1 << 20
_FIRST_GUESS: Final = 64 << 10
_GROWTH: Final = 8
_IS_FULL: Final = "failed to write whole buffer"
"""Text of cramjam's error for a buffer that is too small; a test checks it."""


def decompress(
    body: Buffer, codec: int, bound: Bound = DEFAULT_BOUND, *, room: int = 0
) -> bytearray:
    """The records in `body`, after `room` bytes for the caller.

    Raises CorruptMessage if `body` is no such stream, RecordTooLarge if it unpacks to more than the
    bound, UnsupportedVersion for an unknown codec.
    """
    import cramjam

    unpack = _CODECS.get(codec)
    if unpack is None:
        raise UnsupportedVersion(f"compression type {codec} is not known")
    name = Compression(codec).name.lower()
    try:
        return unpack(memoryview(body), bound.max_bytes, room)
    except _TooLong as why:
        _let_go(why)
        raise RecordTooLarge(
            f"{len(body)} bytes of {name} unpack to more than {bound.max_bytes};"
            f" raise {bound.option}"
        ) from None
    # OverflowError and MemoryError: impossible lengths, refused before a buffer is made.
    except (
        cramjam.DecompressionError,
        zlib.error,
        struct.error,
        EOFError,
        OSError,
        ValueError,
        OverflowError,
        MemoryError,
    ) as why:
        _let_go(why)
        raise CorruptMessage(f"they are no whole {name} stream: {why}") from why


def _let_go(why: BaseException) -> None:
    """Release the unpacked data. The frames of a raised error hold it as long as the error is held,
    and by then the next batch is being unpacked.
    """
    why.__traceback__ = None


def _gzip(body: memoryview, most: int, room: int) -> bytearray:
    out = bytearray(room)
    at = 0
    while True:
        stream = zlib.decompressobj(_GZIP_WINDOW)
        while not stream.eof:
            piece: bytes | memoryview = stream.unconsumed_tail
            if not piece:
                piece = body[at : at + _GZIP_PIECE]
                at += len(piece)
            left = room + most - len(out)
            found = stream.decompress(piece, min(left + 1, _GZIP_OUT))
            if len(found) > left:
                raise _TooLong
            if not piece and not found:
                raise ValueError("the stream is cut off")
            out += found
        at -= len(stream.unused_data)
        # gzip itself reads so too: several members may follow each other, and zeros may follow the
        # last.
        at += _zeros_at(body, at)
        if at == len(body):
            return out


def _zeros_at(body: memoryview, at: int) -> int:
    count = 0
    while piece := bytes(body[at + count : at + count + _GZIP_PIECE]):
        zeros = len(piece) - len(piece.lstrip(b"\0"))
        count += zeros
        if zeros < len(piece):
            break
    return count


def _snappy(body: memoryview, most: int, room: int) -> bytearray:
    import cramjam

    def unpack(block: memoryview) -> None:
        size = cramjam.snappy.decompress_raw_len(block)
        begin = len(out)
        if size > room + most - begin:
            raise _TooLong
        out.extend(bytes(size))
        with memoryview(out)[begin:] as target:
            written = cramjam.snappy.decompress_raw_into(block, target)
        if written != size:
            raise ValueError(f"a block of {size} bytes ends after {written}")

    out = bytearray(room)
    if bytes(body[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        unpack(body)
        return out
    at = _XERIAL_HEADER_SIZE
    while at < len(body):
        (size,) = _BLOCK_LENGTH.unpack_from(body, at)
        at += _BLOCK_LENGTH.size
        if size < 0 or at + size > len(body):
            raise ValueError(f"a block of {size} bytes does not fit")
        unpack(body[at : at + size])
        at += size
    return out


def _lz4(body: memoryview, most: int, room: int) -> bytearray:
    import cramjam

    return _into_growing(cramjam.lz4.decompress_into, body, most, room)


def _zstd(body: memoryview, most: int, room: int) -> bytearray:
    import cramjam

    return _into_growing(cramjam.zstd.decompress_into, body, most, room)


def _into_growing(
    unpack_into: Callable[[Any, Any], int], body: memoryview, most: int, room: int
) -> bytearray:
    """Unpack with codecs that do not state their length: they start over in a larger buffer."""
    from cramjam import DecompressionError

    size = min(max(_GROWTH * len(body), _FIRST_GUESS), most)
    while True:
        out = bytearray(room + size)
        try:
            with memoryview(out)[room:] as target:
                written = unpack_into(body, target)
        except DecompressionError as error:
            if _IS_FULL not in str(error):
                raise
        else:
            del out[room + written :]
            return out
        if size == most:
            raise _TooLong
        size = min(_GROWTH * size, most)


_CODECS: Final[dict[int, Callable[[memoryview, int, int], bytearray]]] = {
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
