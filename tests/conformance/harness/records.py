"""The records that clients write and read in the tests, and how two lists of them are compared."""

from __future__ import annotations

import time
from base64 import b64encode
from typing import Any

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
FOR_EACH_CODEC = 12
BASE_MS = int(time.time() * 1000) - 3_600_000
"""An hour ago: a topic's retention of a week deletes nothing."""

Record = dict[str, Any]


def of_codec(codec: str) -> list[Record]:
    """Records of every shape: null and empty values, bytes, accents, three kinds of header."""
    shapes: list[tuple[bytes | None, bytes | None]] = [
        (b"key", b"value"),
        ("clé-ß-鍵".encode(), bytes(range(256))),
        (None, b"a value without a key"),
        (b"tombstone", None),
        (b"empty", b""),
        (b"long", f"{codec} ".encode() * 2000),
    ]
    return [
        _record(
            number % PARTITIONS,
            BASE_MS + 10 * number + CODECS.index(codec),
            *shapes[number % len(shapes)],
            [("codec", codec.encode()), ("empty", b""), ("accent", "é".encode())],
        )
        for number in range(FOR_EACH_CODEC)
    ]


def numbered(name: str, count: int) -> list[Record]:
    """Records whose keys tell their place; they are text without headers, as lines are."""
    return [
        _record(
            number % PARTITIONS,
            BASE_MS + 1000 + number,
            f"{name}-{number:04}".encode(),
            f"value {number}".encode(),
            [],
        )
        for number in range(count)
    ]


def _record(
    partition: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
) -> Record:
    return {
        "partition": partition,
        "timestamp": timestamp,
        "key": _text(key),
        "value": _text(value),
        "headers": [[name, _text(content)] for name, content in headers],
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def by_partition(records: list[Record]) -> dict[int, list[Record]]:
    """The records of each partition, in their order."""
    found: dict[int, list[Record]] = {}
    for each in records:
        found.setdefault(each["partition"], []).append(each)
    return found


def same(read: list[Record], written: list[Record], *, timed: bool = True) -> None:
    """Fails unless each partition holds the written records, in order, once, byte for byte."""
    fields = ["key", "value", "headers", *(["timestamp"] if timed else [])]
    got, wanted = by_partition(read), by_partition(written)
    assert {each: len(part) for each, part in got.items()} == {
        each: len(part) for each, part in wanted.items()
    }, f"read {len(read)} records of {len(written)}"
    for partition, part in wanted.items():
        for record, other in zip(got[partition], part, strict=True):
            for name in fields:
                assert record[name] == other[name], (
                    f"{name} of {partition}:{record['offset']}: {record[name]}, not {other[name]}"
                )
