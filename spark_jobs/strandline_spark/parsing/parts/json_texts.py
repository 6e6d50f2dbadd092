"""The readers of texts, and the conversion of texts within structs, arrays and maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.faults import Fault, fault
from strandline_spark.parsing.parts.json_parts import (
    WHITESPACE,
    Written,
    WrongValue,
    held,
    held_type,
    value_in,
)
from strandline_spark.parsing.texts import Texts

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ColumnType


class Reader(Protocol):
    """The reader of one column's texts."""

    def read(self, texts: Any, faults: dict[int, Fault], first_row: int = 0) -> Any:
        """Returns an array of the column's type, null where the text is null or does not fit.

        Adds a fault for each text that does not fit, unless its row has one.
        """


def reader_of(name: str, kind: ColumnType) -> Reader:
    """Returns the reader of the texts of a csv field, of a group, of a key, or of a default."""
    return JsonTexts(name, kind) if kind.parts or kind.name == "json" else Texts(name, kind)


class JsonTexts:
    """The reader of texts that are JSON. `name` is for the details."""

    def __init__(self, name: str, kind: ColumnType) -> None:
        self._name = name
        self._kind = kind
        self._inner = InnerTexts(name, kind)

    def read(self, texts: Any, faults: dict[int, Fault], first_row: int = 0) -> Any:
        values = []
        for row, text in enumerate(texts.to_pylist(), first_row):
            found = None
            try:
                found = None if text is None else self._held(text)
            except WrongValue as wrong:
                faults.setdefault(row, wrong.found)
            values.append(found)
        return self._inner.read(pa.array(values, held_type(self._kind)), faults, first_row)

    def _held(self, text: str) -> Any:
        try:
            value = value_in(text)
        except WrongValue as wrong:
            reason, detail = wrong.found
            raise WrongValue(fault(reason, f"column {self._name}: {detail}")) from None
        written = Written(text.strip(WHITESPACE))
        return None if value is None else held(self._name, self._kind, value, written)


class InnerTexts:
    """The conversion of arrays whose dates, timestamps, decimals and bytes are texts."""

    def __init__(self, name: str, kind: ColumnType) -> None:
        self._kind = kind
        self._texts = None if kind.parts else Texts(name, kind)
        is_list = pa.types.is_list(kind.arrow)
        self._parts = [
            InnerTexts(f"{name}[]" if is_list else f"{name}.{part}", inner)
            for part, inner in kind.parts
        ]

    def read(self, array: Any, faults: dict[int, Fault], first_row: int = 0) -> Any:
        """Returns an array of the column's type. `array` is of `held_type`, and begins with its
        buffers. Adds faults like `Reader`.
        """
        return self._read(array, np.arange(first_row, first_row + len(array)), faults)

    def _read(self, array: Any, rows: Any, faults: dict[int, Fault]) -> Any:
        """Reads an array whose values are parts of these rows."""
        kind = self._kind.arrow
        if array.type == kind:
            return array
        if self._texts is not None:
            found: dict[int, Fault] = {}
            values = self._texts.read(array, found)
            for place, one in sorted(found.items()):
                faults.setdefault(int(rows[place]), one)
            return values
        if pa.types.is_struct(kind):
            # A part of a null is null here; in the array's own field it may have any value.
            fields = zip(self._parts, array.flatten(), strict=True)
            inner = [part._read(field, rows, faults) for part, field in fields]
            return pa.StructArray.from_arrays(inner, fields=list(kind), mask=array.is_null())
        lengths = _lengths(array)
        of_rows = np.repeat(rows, lengths)
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        if pa.types.is_map(kind):
            items = self._parts[1]._read(array.items, of_rows, faults)
            return pa.MapArray.from_arrays(ends, array.keys, items, kind, mask=array.is_null())
        elements = self._parts[0]._read(array.flatten(), of_rows, faults)
        return pa.ListArray.from_arrays(ends, elements, kind, mask=array.is_null())


def _lengths(array: Any) -> Any:
    """Returns the number of parts of each value, 0 for null."""
    if pa.types.is_map(array.type):
        return np.diff(array.offsets.to_numpy())
    return pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
