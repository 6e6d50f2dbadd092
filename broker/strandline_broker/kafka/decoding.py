"""A strict decoder over kafka-python's schemas, built once for each version of a request.

Every length is checked against the end, varints have at most 32 bits, a null where the schema has
none is refused, and unknown tagged fields are skipped (KIP-482).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from strandline_broker.kafka.wire import Cursor, MalformedRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    Read: TypeAlias = Callable[[Cursor], Any]

_FIXED: Final[dict[str, Read]] = {
    "int8": Cursor.int8,
    "int16": Cursor.int16,
    "uint16": Cursor.uint16,
    "int32": Cursor.int32,
    "int64": Cursor.int64,
    "float64": Cursor.float64,
    "bool": Cursor.boolean,
    "uuid": Cursor.uuid,
}


def decoder_of(message: Any, version: int, flexible: bool) -> Read:
    """Returns the function that decodes one version of a message.

    `message`: a class of kafka-python's protocol. The function raises MalformedRequest.
    """
    return _struct(message._struct, message[None], version, flexible)


def _struct(field: Any, data_class: Any, version: int, flexible: bool) -> Read:
    """The untagged fields in order, then the tagged ones by their tags."""
    untagged = [
        (each.name, _field(each, version, flexible)) for each in field.untagged_fields(version)
    ]
    tagged = {}
    if flexible:
        tagged = {
            tag: (each.name, _field(each, version, flexible))
            for tag, each in field.tagged_fields(version)._tags.items()
        }

    def read(cursor: Cursor) -> Any:
        # Without __init__, as kafka-python's decoder: a field that is not set has its default.
        found = object.__new__(data_class)
        found._version, found.tags, found.unknown_tags = version, None, None
        for name, read_field in untagged:
            setattr(found, name, read_field(cursor))
        if flexible:
            for _ in range(cursor.uvarint()):
                tag, length = cursor.uvarint(), cursor.uvarint()
                inner = Cursor(cursor.raw(length))
                if tag in tagged:
                    name, read_field = tagged[tag]
                    setattr(found, name, read_field(inner))
                    inner.check_end()
        return found

    return read


def _field(field: Any, version: int, flexible: bool) -> Read:
    nullable = field.nullable_for_version_q(version)
    if field.is_struct_array() or field.is_array():
        return _array(field, _element(field, version, flexible), nullable, flexible)
    if field.is_struct():
        read = _struct(field, field.data_class, version, flexible)
        return _nullable_struct(read) if nullable else read
    return _simple(field, nullable, flexible)


def _element(field: Any, version: int, flexible: bool) -> Read:
    if field.is_struct_array():
        return _struct(field.array_of, field.data_class, version, flexible)
    return _simple(field.array_of, False, flexible)


def _array(field: Any, read: Read, nullable: bool, flexible: bool) -> Read:
    name = field.name

    def array(cursor: Cursor) -> Any:
        count = cursor.count(flexible)
        if count < 0:
            return _null(name, nullable, cursor)
        return [read(cursor) for _ in range(count)]

    return array


def _nullable_struct(read: Read) -> Read:
    def struct(cursor: Cursor) -> Any:
        return None if cursor.int8() < 0 else read(cursor)

    return struct


def _simple(field: Any, nullable: bool, flexible: bool) -> Read:
    kind, name = field.type_str, field.name
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    read_text = kind == "string"

    def read(cursor: Cursor) -> Any:
        value = cursor.string(flexible) if read_text else _copied(cursor.view(flexible))
        return _null(name, nullable, cursor) if value is None else value

    return read


def _copied(view: memoryview | None) -> bytes | None:
    return None if view is None else bytes(view)


def _null(name: str, nullable: bool, cursor: Cursor) -> None:
    if not nullable:
        raise MalformedRequest(f"{name} is null before byte {cursor.pos}; it must have a value")
