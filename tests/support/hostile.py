"""Bytes that a hostile writer may send, and what they cost a process that reads them."""

import json
import struct
import subprocess
import sys
import zlib

from crc32c import crc32c

from strandline_proto.batch import ATTRIBUTES_AT, CRC_AT

GIB = 1 << 30


def zstd_bomb(size: int, *, window_log: int = 27) -> bytes:
    """A zstd frame of `size` zeros, 4 bytes for each 128 KiB, with the largest window there is."""
    block = 128 << 10
    blocks = [block] * (size // block) + [size % block] * (size % block > 0)
    frame = bytearray(b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3]))
    for i, length in enumerate(blocks):
        last = i == len(blocks) - 1
        frame += struct.pack("<I", length << 3 | 1 << 1 | last)[:3] + b"\x00"
    return bytes(frame)


def gzip_bomb(size: int) -> bytes:
    stream = zlib.compressobj(9, wbits=31)
    piece = bytes(1 << 20)
    return b"".join(stream.compress(piece) for _ in range(size >> 20)) + stream.flush()


def lz4_bomb(size: int) -> bytes:
    """An lz4 frame of 4 MiB blocks of zeros, each 255 times smaller."""
    import cramjam

    block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
    frame = bytearray(b"\x04\x22\x4d\x18\x60\x70\x73")
    for _ in range(size >> 22):
        frame += struct.pack("<I", len(block)) + block
    return bytes(frame + bytes(4))


def snappy_bomb(size: int, *, xerial: bool) -> bytes:
    """One block, or Java's framing of blocks of 16 MiB."""
    import cramjam

    if not xerial:
        return bytes(cramjam.snappy.compress_raw(bytes(size)))
    block = bytes(cramjam.snappy.compress_raw(bytes(16 << 20)))
    framed = struct.pack(">i", len(block)) + block
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed * (size >> 24)


def batch_of(
    body: bytes, codec: int, *, records: int = 1, base_ms: int = 1, latest_ms: int = 1
) -> bytes:
    """A batch around `body` as a producer sends it, under a right CRC."""
    data = bytearray(
        struct.pack(
            ">qiibIhiqqqhii",
            *(0, len(body) + 49, -1, 2, 0, codec, records - 1, base_ms, latest_ms),
            *(-1, -1, -1, records),
        )
        + body
    )
    struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))
    return bytes(data)


def varint(value: int) -> bytes:
    """Zigzag, as lengths and deltas of records are written."""
    left = (value << 1) ^ (value >> 63)
    left &= (1 << 64) - 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes(out) + bytes([left])


def bytes_added(script: str, data: bytes) -> tuple[int, str]:
    """(resident bytes that `script` adds at its highest, what it found), in its own process.

    `script` defines `prepare()` and `act(data)`: what the first one loads does not count.
    tracemalloc would not see what the codecs allocate.
    """
    program = f"""
import json, resource, sys
{script}
data = sys.stdin.buffer.read()
prepare()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    said = repr(act(data))
except Exception as error:
    said = f"{{type(error).__name__}}: {{error}}"
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([(after - before) * 1024, said]))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], input=data, capture_output=True, timeout=120, check=True
    )
    added, said = json.loads(run.stdout)
    return added, said
