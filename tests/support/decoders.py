"""Every decoder that bytes from a disk, a wire or a person reach: what the tables of them are made
of.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from crc32c import crc32c

from strandline_proto.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    iter_headers,
)
from strandline_proto.decompression import Bound
from strandline_proto.errors import CorruptMessage
from support.memory_disk import MemoryDisk

ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"

SMALL: Final = Bound(1 << 20)

Seal = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Decoder:
    """`seal` makes a checksum fit again, so that what it guards is reached."""

    name: str
    golden: tuple[bytes, ...]
    call: Callable[[bytes], Any]
    declared: tuple[type[Exception], ...] = ()
    seal: Seal | None = field(default=None)
    positions: int = 150
    """How many bytes of what is sound are damaged; fewer for those that take long."""


def ignored(_: str) -> None:
    """A report that nobody reads."""


def disk_with(name: str, data: bytes, *more: tuple[str, bytes]) -> MemoryDisk:
    return MemoryDisk(((f"/d/{name}", data), *more))


def sealed_batch(data: bytes) -> bytes:
    sealed = bytearray(data)
    with suppress(CorruptMessage):
        for at, header in iter_headers(data):
            crc = crc32c(sealed[at + ATTRIBUTES_AT : at + header.size])
            sealed[at + CRC_AT : at + ATTRIBUTES_AT] = crc.to_bytes(4, "big")
    return bytes(sealed)
