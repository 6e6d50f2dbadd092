"""The content of control records: the end markers of transactions, in Kafka's format.

A control record's key is version i16 and type i16. An end marker's value is version i16 and the
coordinator's epoch i32.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_proto.batch import Record

KEY: Final = struct.Struct(">hh")
VALUE: Final = struct.Struct(">hi")
ABORT: Final = "ABORT"
COMMIT: Final = "COMMIT"
KINDS: Final = {
    0: ABORT,
    1: COMMIT,
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}


@dataclass(frozen=True, slots=True)
class ControlRecord:
    kind: str
    """Kafka's name of the type."""
    coordinator_epoch: int | None
    """None unless the record ends a transaction."""


def control_record(record: Record) -> ControlRecord:
    """The content of a record of a control batch. Raises ValueError if it does not parse."""
    try:
        _, number = KEY.unpack_from(record.key or b"")
        kind = KINDS.get(number, f"unknown ({number})")
        if kind not in (ABORT, COMMIT):
            return ControlRecord(kind, None)
        return ControlRecord(kind, VALUE.unpack_from(record.value or b"")[1])
    except struct.error as error:
        raise ValueError(f"a control record does not parse: {error}") from error
