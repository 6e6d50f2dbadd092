"""The content of a checked record: its key, its value, and a checksum of both, padded to a size."""

from typing import Final

from crc32c import crc32c

_FIELDS: Final = 3


class CorruptPayload(Exception):
    """The bytes do not come from `encode`."""


def encode(key: int, value: int, size: int = 0) -> bytes:
    """The record of `value` for `key`, of at least `size` bytes."""
    head = f"{key} {value} ".encode("ascii")
    payload = head + f"{crc32c(head):08x}".encode("ascii")
    return payload + b" " + b"." * (size - len(payload) - 1)


def decode(payload: bytes | None) -> tuple[int, int]:
    """(key, value) of a record. Raises CorruptPayload."""
    fields = (payload or b"").split(b" ", _FIELDS)
    if len(fields) == _FIELDS + 1 and fields[0].isdigit() and fields[1].isdigit():
        key, value = int(fields[0]), int(fields[1])
        if payload == encode(key, value, len(payload or b"")):
            return key, value
    raise CorruptPayload(f"{(payload or b'')[:60]!r} is no record of this workload")
