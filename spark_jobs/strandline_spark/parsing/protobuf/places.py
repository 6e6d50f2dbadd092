"""The places in a Protobuf message that columns are read from, and the readers of messages,
repeated fields and maps within it.

A field with presence that a message lacks is null, or the default that its .proto file gives it. A
field without presence, as most of proto3, is never null: its zero is all that the message can say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import json_format

from strandline_spark.parsing.parts.explode import explode_of
from strandline_spark.parsing.parts.paths import said
from strandline_spark.parsing.protobuf.columns import reader, type_name
from strandline_spark.parsing.protobuf.descriptors import (
    DescriptorProblem,
    MessageType,
    message_type,
)
from strandline_spark.parsing.settings import POSITION, paths_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_spark.parsing.parts.paths import Path
    from strandline_spark.parsing.settings import ColumnType, ParseSettings

EXPLODE: Final = "[silver] explode"
"""In place of a column's name: the array of that key."""
_SINGLE: Final = "message"
_MANY: Final = "repeated field"
_MAP: Final = "map"
_PLAIN: Final = "value"


@dataclass(frozen=True, slots=True)
class MessageColumn:
    """The reader of one column."""

    steps: tuple[Callable[[Any], Any], ...]
    """The functions that lead to the value, each from the one before; None for nothing."""
    read: Callable[[Any], Any]
    """Returns the value for Arrow of a value that is not null. Raises ValueError for one that the
    column cannot hold.
    """

    def value(self, message: Any) -> Any:
        """Returns the value at the column's place in a message or an element, or None."""
        for step in self.steps:
            if message is None:
                return None
            message = step(message)
        return message


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The type and the columns of the messages of one table."""

    type: MessageType
    columns: dict[str, MessageColumn]
    fields: frozenset[str]
    """Full names of the fields that columns read."""
    elements: MessageColumn | None = None
    """The place of the exploded elements."""


def message_plan(settings: ParseSettings) -> MessagePlan:
    """Returns the plan. Raises DescriptorProblem."""
    of = message_type(settings)
    fields: set[str] = set()
    explode = explode_of(settings.columns, settings.explode)
    elements = element = None
    if explode is not None:
        elements, element = _elements(explode.path, of.descriptor, fields)
    columns = {}
    for name, path in paths_of(settings.columns).items():
        kind = settings.columns[name]
        column = _Column(name, kind, of.descriptor, fields)
        if kind.source == POSITION:
            columns[name] = MessageColumn((), _same)
        elif explode is not None and name in explode.inner:
            columns[name] = column.at(explode.inner[name], element)
        else:
            columns[name] = column.at(path)
    return MessagePlan(of, columns, frozenset(fields), elements)


def _elements(path: Path, message: Any, fields: set[str]) -> tuple[MessageColumn, Any]:
    """Returns the place of the elements that are exploded, and the field that repeats them."""
    steps, field, form = _Column(EXPLODE, None, message, fields).steps(path)
    if form != _MANY:
        is_now = _SINGLE if field is None else _said(field, form)
        raise DescriptorProblem(
            "message",
            f"{path.text} is a {is_now} in the descriptor, and no repeated field: name one",
            EXPLODE,
        )
    return MessageColumn(tuple(steps), _same), field


class _Column:
    """The search for the place and the readers of one column."""

    def __init__(self, name: str, kind: ColumnType | None, message: Any, fields: set[str]) -> None:
        self._name = name
        self._kind = kind
        self._message = message
        self._fields = fields

    def at(self, path: Path, element: Any = None) -> MessageColumn:
        """Returns the reader of a column at this path in the message, or in an element of the
        repeated field `element`.
        """
        assert self._kind is not None
        steps, field, form = self.steps(path, element)
        if self._kind.name == "json":
            return self._json(steps, field, form)
        return MessageColumn(tuple(steps), self._reader(self._kind, field, form))

    def steps(self, path: Path, element: Any = None) -> tuple[list[Callable[[Any], Any]], Any, str]:
        """Returns the functions that lead to the path's place, its field and what it holds."""
        steps: list[Callable[[Any], Any]] = []
        field = element
        form = _SINGLE if element is None else _element_form(element)
        for number, step in enumerate(path.steps):
            of = self._message if field is None else field.message_type
            if isinstance(step, str) and form == _SINGLE:
                field = self._field(of, step, said(path.steps[:number]))
                form = _form(field)
                steps.append(partial(_of_field, field))
                continue
            if form == _MAP and isinstance(step, str) and _has_text_keys(field):
                steps.append(partial(_of_key, step))
                field = field.message_type.fields_by_name["value"]
            elif form == _MANY and isinstance(step, int):
                steps.append(partial(_of_element, step))
            else:
                raise self._problem(_nothing(path, number, form))
            self._fields.add(field.full_name)
            form = _element_form(field)
        return steps, field, form

    def _json(self, steps: list[Callable[[Any], Any]], field: Any, form: str) -> MessageColumn:
        if form == _SINGLE:
            return MessageColumn(tuple(steps), _json_of_message)
        last = steps[-1] if steps else None
        if not isinstance(last, partial) or last.func is not _of_field:
            raise self._problem("json is for a field or a message; give this place its own type")
        return MessageColumn(
            (*steps[:-1], partial(_with_presence, field)), partial(_json_of, field)
        )

    def _reader(self, kind: ColumnType, field: Any, form: str) -> Callable[[Any], Any]:
        """Returns the reader of a field's value, which is of this form."""
        wanted = {"struct": _SINGLE, "array": _MANY, "map": _MAP}.get(kind.name.partition("<")[0])
        if wanted is None and form in (_MANY, _MAP):
            raise self._problem(f"the field {field.name} is a {form}, and {kind.name} is one value")
        if wanted is None and field is None:
            raise self._problem(f"the message is no {kind.name}")
        if wanted is None:
            return reader(self._name, kind, field)
        if form != wanted:
            of = (
                "the message"
                if field is None
                else f"the Protobuf field of type {_said(field, form)}"
            )
            raise self._problem(f"{kind.name} does not fit {of}: it takes a {wanted}")
        if wanted == _SINGLE:
            return self._struct(kind, self._message if field is None else field.message_type)
        if any(part.name == "json" for _, part in kind.parts):
            raise self._problem(f"{kind.name}: make all of it json, or give its parts a type")
        if wanted == _MANY:
            read = self._reader(kind.parts[0][1], field, _element_form(field))
            return lambda value: [read(one) for one in value]
        inner = field.message_type.fields_by_name["value"]
        self._fields.add(inner.full_name)
        read = self._reader(kind.parts[-1][1], inner, _element_form(inner))
        # protobuf keeps no order.
        return lambda value: sorted((_key(key), read(one)) for key, one in _items(value))

    def _struct(self, kind: ColumnType, of: Any) -> Callable[[Any], dict[str, Any]]:
        parts: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
        for name, part in kind.parts:
            field = self._field(of, name, of.full_name)
            if part.name == "json" and _form(field) != _SINGLE:
                parts[name] = (partial(_with_presence, field), partial(_json_of, field))
            elif part.name == "json":
                parts[name] = (partial(_of_field, field), _json_of_message)
            else:
                read = self._reader(part, field, _form(field))
                parts[name] = (partial(_of_field, field), read)

        def read_all(message: Any) -> dict[str, Any]:
            found = {name: of_field(message) for name, (of_field, _) in parts.items()}
            return {
                name: None if one is None else parts[name][1](one) for name, one in found.items()
            }

        return read_all

    def _field(self, of: Any, name: str, where: str) -> Any:
        found = of.fields_by_name.get(name)
        if found is None:
            known = ", ".join(of.fields_by_name) or "none"
            inside = f" in {where}" if where and where != of.full_name else ""
            raise self._problem(f"{of.full_name} has no field {name}{inside}: it has {known}")
        self._fields.add(found.full_name)
        return found

    def _problem(self, what: str) -> DescriptorProblem:
        return DescriptorProblem("message", what, self._name)


def _same(value: Any) -> Any:
    return value


def _of_field(field: Any, message: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return field.default_value if field.has_default_value else None
    return getattr(message, field.name)


def _with_presence(field: Any, message: Any) -> Any:
    """Returns the message itself if it has the field."""
    return None if _of_field(field, message) is None else message


def _of_element(place: int, value: Any) -> Any:
    return value[place] if -len(value) <= place < len(value) else None


def _of_key(key: str, value: Any) -> Any:
    return value.get(key)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return [(key, value[key]) for key in value]


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _json_of_message(message: Any) -> str:
    return _dumped(_plain_json(message))


def _json_of(field: Any, message: Any) -> str:
    """Returns the JSON of one field of a message."""
    alone = type(message)()
    if field.is_repeated:
        getattr(alone, field.name).MergeFrom(getattr(message, field.name))
    else:
        setattr(alone, field.name, _of_field(field, message))
    return _dumped(_plain_json(alone)[field.name])


def _plain_json(message: Any) -> Any:
    try:
        return json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=message.DESCRIPTOR.file.pool,
        )
    except (json_format.Error, TypeError, ValueError) as why:
        raise ValueError(f"{message.DESCRIPTOR.full_name} has no JSON ({why})") from why


def _dumped(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _form(field: Any) -> str:
    if not field.is_repeated:
        return _element_form(field)
    inner = field.message_type
    return _MAP if inner is not None and inner.GetOptions().map_entry else _MANY


def _element_form(field: Any) -> str:
    return _PLAIN if field.message_type is None else _SINGLE


def _has_text_keys(field: Any) -> bool:
    return type_name(field.message_type.fields_by_name["key"]) == "string"


def _said(field: Any, form: str) -> str:
    return form if form in (_MANY, _MAP) else type_name(field)


def _nothing(path: Path, number: int, form: str) -> str:
    """Returns the words for a path whose step of this number leads nowhere."""
    parts = "fields" if isinstance(path.steps[number], str) else "elements"
    before = said(path.steps[:number]) or "the message"
    return (
        f"{before} of {path.text} is a {form} in the descriptor, and has no {parts}: shorten the"
        " path, or correct it"
    )
