"""Requests that hold many elements, of every method of our services, as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from strandline_proto.v1 import services_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor, MethodDescriptor

SENDABLE_BYTES: Final = 60 << 20
"""Size of the largest request; the transport accepts a little more."""
_TEXTS: Final = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES


class Repeated(NamedTuple):
    """A repeated field of a method's request."""

    method: MethodDescriptor
    path: tuple[str, ...]

    @property
    def name(self) -> str:
        """The field's name as in a refusal."""
        return ".".join(self.path)

    @property
    def call(self) -> str:
        return f"/{self.method.containing_service.full_name}/{self.method.name}"


def repeated_fields() -> Iterator[Repeated]:
    """The repeated fields of every method of every service."""
    for service in services_pb2.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            for path in _paths(method.input_type):
                yield Repeated(method, path)


def request(field: Repeated, count: int, *, size: int = 0) -> bytes:
    """A request with so many elements in the field, in one parent; `size` characters in
    each text.
    """
    message = GetMessageClass(field.method.input_type)()
    parent: Any = message
    for name in field.path[:-1]:
        inner = getattr(parent, name)
        if hasattr(inner, "add"):
            parent = inner.add()
            _fill(parent, 0, size)
        else:
            parent = inner
            parent.SetInParent()
    descriptor = parent.DESCRIPTOR.fields_by_name[field.path[-1]]
    elements = getattr(parent, field.path[-1])
    if descriptor.message_type is not None and size == 0:
        elements.extend([GetMessageClass(descriptor.message_type)()] * count)
    elif descriptor.message_type is not None:
        for number in range(count):
            _fill(elements.add(), number, size)
    elif descriptor.type in _TEXTS:
        elements.extend(_text(descriptor, number, size) for number in range(count))
    else:
        elements.extend(range(count))
    return bytes(message.SerializeToString())


def _paths(message: Descriptor, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in message.fields:
        path = (*above, field.name)
        if field.is_repeated:
            yield path
        if field.message_type is not None:
            yield from _paths(field.message_type, path)


def _fill(message: Any, number: int, size: int) -> None:
    """Give its plain fields values that differ, where it has any and `size` is above 0."""
    if size == 0:
        return
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated or field.message_type is not None:
            continue
        if field.type in _TEXTS:
            setattr(message, field.name, _text(field, number, size))
        elif field.type == FieldDescriptor.TYPE_INT32 and field.name.startswith("partition"):
            setattr(message, field.name, number)


def _text(field: Any, number: int, size: int) -> str | bytes:
    if size == 0:
        return b"" if field.type == FieldDescriptor.TYPE_BYTES else ""
    if field.type == FieldDescriptor.TYPE_BYTES:
        return number.to_bytes(16, "big")
    return f"{number:0{size}}"
