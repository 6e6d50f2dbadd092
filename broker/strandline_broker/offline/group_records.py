"""The records of `__consumer_offsets`, parsed by a table of fields. This shares no line with the
coordinator, so a mistake there is not repeated here.

The results are plain: names, numbers, texts, lists and dictionaries, fit for JSON. A type or
version that the tables lack is given as its number, with its bytes as hex.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from strandline_proto.ids import topic_id_text


class BrokenRecord(ValueError):
    """The bytes do not match their type and version."""


Kind = str | tuple["F", ...]
"""A primitive, `[primitive]` for an array of it, or the fields of an array of structures."""


@dataclass(frozen=True, slots=True)
class F:
    """A field, and the versions that have it; a tagged field follows the others."""

    name: str
    kind: Kind
    since: int = 0
    until: int = 99
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    name: str
    key: tuple[F, ...]
    value: tuple[F, ...] | None
    newest: int = 0
    flexible_since: int = 0


_GROUP: Final = (F("group", "text"),)
_MEMBER: Final = (*_GROUP, F("member_id", "text"))
_PARTITIONS: Final = (
    F("topic_id", "uuid"),
    F("partitions", "[i32]"),
    F("assignment_epochs", "[i32]", tag=0),
)
_COMMIT: Final = Layout(
    "offset_commit",
    (*_GROUP, F("topic", "text"), F("partition", "i32")),
    (
        F("offset", "i64"),
        F("leader_epoch", "i32", since=3),
        F("metadata", "text"),
        F("commit_timestamp", "i64"),
        F("expire_timestamp", "i64", since=1, until=1),
        F("topic_id", "uuid", tag=0),
    ),
    newest=4,
    flexible_since=4,
)
_CLASSIC_MEMBER: Final = (
    F("member_id", "text"),
    F("group_instance_id", "text?", since=3),
    F("client_id", "text"),
    F("client_host", "text"),
    F("rebalance_timeout", "i32", since=1),
    F("session_timeout", "i32"),
    F("subscription", "bytes"),
    F("assignment", "bytes"),
)
_GROUP_METADATA: Final = Layout(
    "group_metadata",
    _GROUP,
    (
        F("protocol_type", "text"),
        F("generation", "i32"),
        F("protocol", "text?"),
        F("leader", "text?"),
        F("current_state_timestamp", "i64", since=2),
        F("members", _CLASSIC_MEMBER),
    ),
    newest=4,
    flexible_since=4,
)
_MEMBER_METADATA: Final = (
    F("instance_id", "text?"),
    F("rack_id", "text?"),
    F("client_id", "text"),
    F("client_host", "text"),
    F("subscribed_topic_names", "[text]"),
    F("subscribed_topic_regex", "text?"),
    F("rebalance_timeout", "i32"),
    F("server_assignor", "text?"),
    F("classic_member_metadata", "rest", tag=0),
)
_CURRENT: Final = (
    F("member_epoch", "i32"),
    F("previous_member_epoch", "i32"),
    F("state", "i8"),
    F("assigned", _PARTITIONS),
    F("pending_revocation", _PARTITIONS),
)

LAYOUTS: Final[dict[int, Layout]] = {
    0: _COMMIT,
    1: _COMMIT,
    2: _GROUP_METADATA,
    3: Layout("group_epoch", _GROUP, (F("epoch", "i32"), F("metadata_hash", "i64", tag=0))),
    4: Layout("group_topic_metadata", _GROUP, None),
    5: Layout("member", _MEMBER, _MEMBER_METADATA),
    6: Layout(
        "target_epoch",
        _GROUP,
        (F("assignment_epoch", "i32"), F("assignment_timestamp", "i64", tag=0)),
    ),
    7: Layout("target_assignment", _MEMBER, (F("topics", _PARTITIONS),)),
    8: Layout("current_assignment", _MEMBER, _CURRENT),
    16: Layout(
        "regular_expression",
        (*_GROUP, F("regex", "text")),
        (F("topics", "[text]"), F("version", "i64"), F("timestamp", "i64")),
    ),
}


@dataclass(frozen=True, slots=True)
class GroupRecord:
    kind: str
    """Name of the layout; `type N` if the layout is unknown."""
    key: dict[str, Any]
    value: dict[str, Any] | None
    """The value; None is a tombstone."""


def decode(key: bytes, value: bytes | None) -> GroupRecord:
    """The record with this key and value. Raises BrokenRecord if the bytes do not have the layout
    that they name.
    """
    cursor = _Cursor(key)
    number = cursor.number("h")
    layout = LAYOUTS.get(number)
    if layout is None:
        return GroupRecord(f"type {number}", _raw(key), None if value is None else _raw(value))
    named = cursor.fields(layout.key, 0)
    cursor.finish()
    if value is None:
        return GroupRecord(layout.name, named, None)
    body = _Cursor(value)
    version = body.number("h")
    if version < 0:
        raise BrokenRecord(f"a value of version {version}")
    if layout.value is None or version > layout.newest:
        return GroupRecord(layout.name, named, {"version": version, **_raw(value)})
    body.compact = version >= layout.flexible_since
    found = body.fields(layout.value, version)
    body.finish()
    return GroupRecord(layout.name, named, found)


def _raw(data: bytes) -> dict[str, Any]:
    return {"hex": data.hex()}


class _Cursor:
    """A position in the bytes of one key or value."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0
        self.compact = False

    def fields(self, fields: tuple[F, ...], version: int) -> dict[str, Any]:
        found = {
            field.name: self.field(field.kind, version)
            for field in fields
            if field.tag is None and field.since <= version <= field.until
        }
        if self.compact:
            named = {field.tag: field for field in fields if field.tag is not None}
            for _ in range(self.varint()):
                tag, content = self.varint(), _Cursor(self.cut(self.varint()))
                if tag in named:
                    content.compact = True
                    found[named[tag].name] = content.field(named[tag].kind, version)
                    content.finish()
        return found

    def field(self, kind: Kind, version: int) -> Any:
        if isinstance(kind, tuple):
            return [self.fields(kind, version) for _ in range(self.length("i"))]
        if kind.startswith("["):
            return [self.field(kind[1:-1], version) for _ in range(self.length("i"))]
        match kind:
            case "i8" | "i32" | "i64":
                return self.number({"i8": "b", "i32": "i", "i64": "q"}[kind])
            case "uuid":
                return topic_id_text(self.cut(16))
            case "rest":
                rest = self.cut(len(self.data) - self.place)
                return None if rest == b"\x00" else rest.hex()
            case "bytes":
                return self.cut(self.length("i")).hex()
            case "text":
                return self.text(self.length("h"))
            case _:
                size = self.length("h", null=True)
                return None if size < 0 else self.text(size)

    def length(self, plain: str, *, null: bool = False) -> int:
        size = self.varint() - 1 if self.compact else self.number(plain)
        if size < (-1 if null else 0) or size > len(self.data):
            raise BrokenRecord(f"a length of {size} before byte {self.place}")
        return size

    def text(self, size: int) -> str:
        try:
            return self.cut(size).decode()
        except UnicodeDecodeError as error:
            raise BrokenRecord(f"text before byte {self.place} is not UTF-8") from error

    def number(self, code: str) -> int:
        found = struct.Struct(">" + code)
        return int(found.unpack(self.cut(found.size))[0])

    def varint(self) -> int:
        value = 0
        for turn in range(5):
            (byte,) = self.cut(1)
            value += (byte & 127) << 7 * turn
            if byte < 128:
                return value
        raise BrokenRecord(f"a number without end before byte {self.place}")

    def cut(self, size: int) -> bytes:
        piece = self.data[self.place : self.place + size]
        if len(piece) < size:
            raise BrokenRecord(f"{size} bytes wanted at byte {self.place} of {len(self.data)}")
        self.place += size
        return piece

    def finish(self) -> None:
        if self.place < len(self.data):
            raise BrokenRecord(f"{len(self.data) - self.place} bytes more than fields")
