"""Values that are Protobuf messages: bare, or with the header of a schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError

from strandline_spark.parsing.cleaning import clean_text
from strandline_spark.parsing.decoded import Decoded
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.framing import NoHeaderError, has_header, message_place
from strandline_spark.parsing.parts.explode import explode_of
from strandline_spark.parsing.protobuf.places import message_plan
from strandline_spark.parsing.protobuf.walk import MessageWalk, NotAsDeclared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.parsing.settings import ParseSettings


class ProtobufDecoder:
    """The decoder for the settings of one table."""

    def __init__(self, settings: ParseSettings) -> None:
        self._plan = message_plan(settings)
        self._type = self._plan.type
        self._walk = MessageWalk(self._type.descriptor, self._plan.fields)
        self._has_header = has_header(settings)
        self._kinds = settings.columns
        self._explode = explode_of(settings.columns, settings.explode)

    def decode(self, values: Any) -> Decoded:
        faults: dict[int, Fault] = {}
        found: dict[str, list[Any]] = {name: [] for name in self._kinds}
        sizes: list[int] = []
        for row, value in enumerate(values.to_pylist()):
            message = None
            try:
                message = self._message(value)
            except NotAsDeclared as why:
                faults[row] = fault(why.reason, f"{why}: {shown(value)}")
            elements = self._elements(message)
            sizes.append(max(1, len(elements)))
            for name, held in found.items():
                if self._explode is None or not self._explode.holds(name):
                    held.append(self._one(name, row, message, faults))
                elif name == self._explode.position:
                    held += range(len(elements)) if len(elements) > 0 else [None]
                else:
                    held += [self._one(name, row, one, faults) for one in elements or [None]]
        arrays = []
        for name, held in found.items():
            array = pa.array(held, type=self._kinds[name].arrow)
            if self._explode is not None and self._explode.holds(name):
                ends = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
                array = pa.ListArray.from_arrays(ends, array)
            arrays.append(array)
        return Decoded(arrays, faults)

    def _elements(self, message: Any) -> Sequence[Any]:
        """Returns the exploded elements."""
        place = self._plan.elements
        found = None if message is None or place is None else place.value(message)
        return () if found is None else list(found)

    def _one(self, name: str, row: int, value: Any, faults: dict[int, Fault]) -> Any:
        """Returns what a column holds of a message or an element; None in a row with a fault."""
        column = self._plan.columns[name]
        if row in faults or value is None:
            return None
        try:
            one = column.value(value)
            if isinstance(one, str):
                one = clean_text(one, self._kinds[name])
            return None if one is None else column.read(one)
        except TypeError as error:
            faults[row] = fault(Reason.NOT_UTF8, str(error))
        except (ValueError, ArithmeticError) as error:
            faults[row] = fault(Reason.OUT_OF_RANGE, str(error))
        return None

    def _message(self, value: bytes) -> Any:
        """Returns the message. Raises NotAsDeclared for a value that is none of the type."""
        body = self._body(value)
        name = self._type.descriptor.full_name
        try:
            message = self._type.make.FromString(body)
        except (DecodeError, RecursionError, MemoryError) as why:
            raise NotAsDeclared(Reason.NOT_PROTOBUF, f"no message of {name}") from why
        if not message.IsInitialized():
            raise NotAsDeclared(Reason.NOT_PROTOBUF, f"{name} lacks a required field")
        message.DiscardUnknownFields()
        if message.SerializePartialToString(deterministic=True) != body:
            try:
                self._walk.check(body)
            except ValueError as why:
                raise NotAsDeclared(Reason.NOT_PROTOBUF, f"no message of {name}, {why}") from why
        return message

    def _body(self, value: bytes) -> bytes:
        """Returns the value without its header."""
        if not self._has_header:
            return value
        try:
            place, at = message_place(value)
        except NoHeaderError as why:
            raise NotAsDeclared(Reason.NO_SCHEMA_ID, str(why)) from why
        if place != self._type.place:
            raise NotAsDeclared(
                Reason.ANOTHER_MESSAGE,
                f"the header names the message at {_shown(place)} of its file, and"
                f" {self._type.descriptor.full_name} is at {_shown(self._type.place)}",
            )
        return value[at:]


def _shown(place: tuple[int, ...]) -> str:
    return ".".join(map(str, place))
