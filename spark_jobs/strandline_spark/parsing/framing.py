"""The header that a schema registry's serializers put before a value: a zero byte, and four bytes
of the schema's id. Protobuf's has the place of the message in its file behind them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ParseSettings

HEADER_BYTES: Final = 5
ID_MAX: Final = 2**31 - 1
_BYTES_MAX: Final = 5
"""Limit of the bytes of a message index, each with seven of its bits."""
_DEPTH_MAX: Final = 100
"""Limit of messages within each other, as in a value of Protobuf."""


def has_header(settings: ParseSettings) -> bool:
    """True if values begin with a header; schemas by their ids need one."""
    return settings.registry is not None or bool(settings.schemas)


class NoHeaderError(ValueError):
    """A value without the header of a registry."""


def schema_id(value: bytes) -> int:
    """Returns the id of the value's schema. Raises NoHeaderError."""
    if len(value) > 0 and value[0] != 0:
        raise NoHeaderError(f"the first byte is {value[0]}, and a registry's header begins with 0")
    if len(value) < HEADER_BYTES:
        raise NoHeaderError("the value ends before the schema id does")
    (found,) = struct.unpack_from(">I", value, 1)
    return int(found)


def message_place(value: bytes) -> tuple[tuple[int, ...], int]:
    """Returns the place of the message in its file, from the outermost message to the innermost,
    and the end of the header. Raises NoHeaderError.
    """
    schema_id(value)
    count, at = _number(value, HEADER_BYTES)
    if count == 0:
        return (0,), at
    if not 0 < count <= _DEPTH_MAX:
        raise NoHeaderError(f"the header has {count} message indexes")
    found = []
    for _ in range(count):
        place, at = _number(value, at)
        found.append(place)
    return tuple(found), at


def _number(value: bytes, at: int) -> tuple[int, int]:
    """Returns a signed number and its end."""
    found = 0
    for place in range(_BYTES_MAX):
        if at + place >= len(value):
            raise NoHeaderError("the value ends before the message indexes do")
        byte = value[at + place]
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at + place + 1
    raise NoHeaderError("a message index has more than 32 bits")
