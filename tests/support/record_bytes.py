"""Records of a batch byte by byte, so that each of their fields can lie."""

from dataclasses import dataclass

from support.hostile import varint


@dataclass(frozen=True)
class Fields:
    """One record as numbers; a length that is None is the right one."""

    offset_delta: int = 0
    timestamp_delta: int = 0
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    length: int | None = None
    key_length: int | None = None
    value_length: int | None = None
    header_count: int | None = None
    header_key_length: int | None = None
    header_value_length: int | None = None
    surplus: bytes = b""
    attributes: int = 0


def record(fields: Fields) -> bytes:
    body = bytes([fields.attributes]) + varint(fields.timestamp_delta) + varint(fields.offset_delta)
    body += sized(fields.key, fields.key_length) + sized(fields.value, fields.value_length)
    count = len(fields.headers) if fields.header_count is None else fields.header_count
    body += varint(count)
    for key, value in fields.headers:
        body += sized(key, fields.header_key_length) + sized(value, fields.header_value_length)
    body += fields.surplus
    return varint(len(body) if fields.length is None else fields.length) + body


def sized(data: bytes | None, length: int | None) -> bytes:
    """A length, the right one if it is None, and the bytes."""
    if length is None:
        length = -1 if data is None else len(data)
    return varint(length) + (data or b"")
