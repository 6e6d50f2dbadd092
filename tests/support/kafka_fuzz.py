"""Random requests of Kafka's protocol: valid ones by kafka-python's schemas, and their mutants."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.kafka import codec
from strandline_broker.kafka.versions import SERVED, Api
from strandline_proto.batch import build_batch

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

TEXTS: Final = ("", "fuzz", "fuzz-2", "x" * 249, "../etc", "gruppe-\N{ROCKET}", "range", "consumer")
NUMBERS: Final = (-(1 << 31), -3, -2, -1, 0, 1, 2, 3, 50, 1 << 15, (1 << 31) - 1)
EXTREMES: Final = (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff" * 9)
LONG: Final = (b"", b"\x00" * 12, build_batch([(b"k", b"v")], timestamp_ms=0))
WIDTHS: Final = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "int64": 63}
FRAME_BYTES_MAX: Final = 1 << 14
"""No longer frame is repeated. Five repetitions of 200 times each would fill the memory."""
BY_HAND: Final = frozenset(("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"))
"""Requests that kafka-python does not know; their bodies are bytes by chance."""


def random_frame(rng: random.Random) -> bytes:
    """A request with its length before it, most often with a fault in it."""
    api = rng.choice(SERVED)
    version = rng.randint(api.first, api.last)
    frame = _header(rng, api, version) + _body(rng, api, version)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
        frame = rng.choice(MUTATIONS)(rng, frame)
    length = len(frame)
    if rng.random() < 0.05:
        length = rng.choice((0, length - 1, length + 1, 1 << 30, -1, 1 << 20))
    return struct.pack(">i", length) + frame


def _header(rng: random.Random, api: Api, version: int) -> bytes:
    number = rng.choice(NUMBERS)
    header = struct.pack(">hhih", api.key, version, number, 4) + b"fuzz"
    return header + (b"\x00" if api.is_flexible(version) else b"")


def _body(rng: random.Random, api: Api, version: int) -> bytes:
    kind = codec.load().get(f"{api.name}Request")
    if kind is None or api.name in BY_HAND or version > kind.max_version:
        return rng.randbytes(rng.randint(0, 60))
    message = kind(version=version)
    _fill(rng, message, kind._struct, version)
    try:
        return bytes(message.encode(version=version))
    except (struct.error, ValueError, TypeError, AttributeError):
        return rng.randbytes(rng.randint(0, 60))  # a combination that the encoder refuses


def _fill(rng: random.Random, into: Any, fields: Any, version: int) -> None:
    for field in fields.untagged_fields(version):
        setattr(into, field.name, _value(rng, field, version))


def _value(rng: random.Random, field: Any, version: int) -> Any:
    if field.nullable_for_version_q(version) and rng.random() < 0.2:
        return None
    if field.is_struct_array():
        return [
            _element(rng, field, field.array_of, version)
            for _ in range(rng.choice((0, 1, 1, 2, 9)))
        ]
    if field.is_array():
        return [_simple(rng, field.array_of) for _ in range(rng.choice((0, 1, 1, 2, 9)))]
    if field.is_struct():
        return _element(rng, field, field, version)
    return _simple(rng, field)


def _element(rng: random.Random, field: Any, fields: Any, version: int) -> Any:
    found = field.data_class(version=version)
    _fill(rng, found, fields, version)
    return found


def _simple(rng: random.Random, field: Any) -> Any:
    kind = field.type_str
    if kind == "string":
        return rng.choice(TEXTS)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "uuid":
        return rng.randbytes(16).hex()
    if kind in ("bytes", "records"):
        return rng.choice(LONG)
    bits = WIDTHS.get(kind, 7)
    low = 0 if kind == "uint16" else -(1 << bits)
    return max(low, min(rng.choice(NUMBERS), (1 << bits) - 1))


def _flipped(rng: random.Random, frame: bytes) -> bytes:
    at = rng.randrange(len(frame))
    return frame[:at] + bytes((frame[at] ^ 1 << rng.randrange(8),)) + frame[at + 1 :]


def _cut(rng: random.Random, frame: bytes) -> bytes:
    return frame[: rng.randrange(1, len(frame) + 1)]


def _extended(rng: random.Random, frame: bytes) -> bytes:
    return frame + rng.randbytes(rng.choice((1, 3, 40)))


def _extreme(rng: random.Random, frame: bytes) -> bytes:
    at, what = rng.randrange(len(frame)), rng.choice(EXTREMES)
    return frame[:at] + what + frame[at + len(what) :]


def _doubled(rng: random.Random, frame: bytes) -> bytes:
    if len(frame) > FRAME_BYTES_MAX:
        return frame
    first, last = sorted((rng.randrange(len(frame) + 1), rng.randrange(len(frame) + 1)))
    return frame[:last] + frame[first:last] * rng.choice((1, 2, 200)) + frame[last:]


MUTATIONS: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (
    _flipped,
    _flipped,
    _cut,
    _extended,
    _extreme,
    _doubled,
)
