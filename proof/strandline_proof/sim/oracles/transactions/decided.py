"""The decisions of coordinators: the records of `__transaction_state`, by a decoder of its own."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

Place = tuple[str, int]
ONGOING: Final = 1
PREPARED: Final = {2: True, 3: False}
"""The states of a decided transaction, and whether it is committed."""
COMPLETE: Final = {4: True, 5: False}
SETTLED: Final = (0, 4, 5)
FIELDS: Final = struct.Struct(">hqhib")
VARINT_BITS: Final = 7


class Decision(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int
    state: int
    partitions: tuple[Place, ...]


def decision_of(key: bytes, value: bytes | None) -> Decision | None:
    """The record's content; None for a tombstone."""
    kind, size = struct.unpack_from(">hh", key)
    assert kind == 0, key
    transactional_id = key[4 : 4 + size].decode()
    if value is None:
        return None
    version, producer_id, epoch, _, state = FIELDS.unpack_from(value)
    assert version == 1, f"a record of version {version}"
    return Decision(transactional_id, producer_id, epoch, state, _partitions(value))


def _partitions(value: bytes) -> tuple[Place, ...]:
    topics, at = _uvarint(value, FIELDS.size)
    found = []
    for _ in range(topics - 1):
        size, at = _uvarint(value, at)
        topic = value[at : at + size - 1].decode()
        count, at = _uvarint(value, at + size - 1)
        ids = struct.unpack_from(f">{count - 1}i", value, at)
        tags, at = _uvarint(value, at + 4 * (count - 1))
        assert tags == 0, "a topic has no tags"
        found += [(topic, index) for index in ids]
    return tuple(found)


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + VARINT_BITS
        if byte < 0x80:
            return found, at
