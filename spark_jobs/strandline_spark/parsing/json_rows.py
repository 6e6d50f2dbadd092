"""The Python reader of JSON objects, one after the other, which finds each right value and each
fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strandline_spark.parsing.cleaning import clean_text
from strandline_spark.parsing.inference import (
    BOOLEAN,
    TEXT,
    holds,
    merge_fields,
    types_of_number,
    types_of_whole,
)
from strandline_spark.parsing.parts.json_parts import (
    WHITESPACE,
    Fraction,
    Integer,
    Written,
    WrongValue,
    held,
    no_array,
    no_place,
    object_in,
    value_in,
)
from strandline_spark.parsing.parts.paths import NoPlaceError
from strandline_spark.parsing.parts.type_names import leaves
from strandline_spark.parsing.parts.unread import Unread
from strandline_spark.parsing.settings import POSITION, paths_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from strandline_spark.parsing.faults import Fault
    from strandline_spark.parsing.parts.explode import Explode
    from strandline_spark.parsing.parts.paths import Path
    from strandline_spark.parsing.settings import ColumnType


@dataclass(slots=True)
class JsonColumns:
    """The columns of some rows. A column holds values for Arrow: texts for dates, timestamps and
    decimals, None if the row has no value or a fault.
    """

    columns: dict[str, list[Any]]
    faults: dict[int, Fault] = field(default_factory=dict)
    fields: dict[int, dict[str, str]] = field(default_factory=dict)
    """New fields by row, and those whose column does not hold the value, each with the types that
    do.
    """
    left_out: set[str] = field(default_factory=set)
    """Fields of objects that columns read in part, which no column reads."""

    def new_fields(self, bad: Collection[int]) -> dict[str, str]:
        found: dict[str, str] = {}
        for row, fields in self.fields.items():
            if row not in bad and row not in self.faults:
                merge_fields(found, fields)
        return found


class JsonRows:
    """The reader; `columns`, `explode` and `ignores_new_fields` as in the settings."""

    def __init__(
        self,
        columns: Mapping[str, ColumnType],
        explode: Explode | None = None,
        *,
        ignores_new_fields: bool = False,
        takes_any_value: bool = False,
    ) -> None:
        """Prepares the reader. With `takes_any_value` a text may be any JSON value, not an object
        alone.
        """
        self._read = value_in if takes_any_value else object_in
        paths = paths_of({name: kind for name, kind in columns.items() if kind.source != POSITION})
        self._explode = explode
        self._names = list(columns)
        self._nothing = [
            [None] if explode is not None and explode.holds(name) else None for name in columns
        ]
        """The values of a row with a fault."""
        inner = {} if explode is None else explode.inner
        self._columns = [
            _Column(name, columns[name], path) for name, path in paths.items() if name not in inner
        ]
        self._of_elements = [_Column(name, columns[name], path) for name, path in inner.items()]
        self._known = {top for path in paths.values() for top in path.tops}
        if explode is not None:
            self._known.update(explode.path.tops)
        self._widening = {
            name: kind.name
            for name, kind in columns.items()
            if kind.any_kind and kind.name != "string"
        }
        """The types of the columns that may become wider; their fields have their names."""
        self._has_new_fields = bool(self._widening) or not ignores_new_fields
        own = {name: path for name, path in paths.items() if columns[name].source is None}
        unread = None if ignores_new_fields else Unread(columns, own, explode)
        self._unread = unread if unread is not None and unread.is_needed else None

    def decode(self, texts: list[str]) -> JsonColumns:
        found = JsonColumns({name: [] for name in self._names})
        for row, text in enumerate(texts):
            try:
                fields = self._read(text)
                new = self._new_fields(fields) if self._has_new_fields else {}
                written = Written(text.strip(WHITESPACE))
                own = {
                    one.name: None if new and one.path.plain in new else one.of(fields, written)
                    for one in self._columns
                }
                if self._explode is not None:
                    own |= self._exploded(self._explode, fields, written)
                values = [own[name] for name in self._names]
                if new:
                    found.fields[row] = new
                if self._unread is not None:
                    self._unread.find(fields, found.left_out)
            except WrongValue as wrong:
                found.faults[row] = wrong.found
                values = self._nothing
            for column, value in zip(found.columns.values(), values, strict=True):
                column.append(value)
        return found

    def _exploded(
        self, explode: Explode, fields: dict[str, Any], written: Written
    ) -> dict[str, list[Any]]:
        """Returns a value of each element for the columns of elements. Raises WrongValue."""
        try:
            elements = explode.elements_in(fields)
        except NoPlaceError as why:
            raise WrongValue(no_array(explode.path, why)) from None
        texts = written.at(*explode.path.steps_in(fields))
        found: dict[str, list[Any]] = {
            one.name: [
                one.of(element, texts, n) if element is not None else None
                for n, element in enumerate(elements)
            ]
            for one in self._of_elements
        }
        found[explode.position] = explode.positions_of(elements, fields)
        return found

    def _new_fields(self, fields: dict[str, Any]) -> dict[str, str]:
        """Returns the fields without a column, and those whose column must become wider."""
        found = {}
        for name, value in fields.items():
            column = self._widening.get(name)
            if value is not None and (column is not None or name not in self._known):
                types = _types_of(value)
                if column is None or not holds(types, column):
                    found[name] = types
        return found


class _Column:
    """The reader of one column."""

    __slots__ = ("_has_texts", "_is_plain_text", "_kind", "name", "path")

    def __init__(self, name: str, kind: ColumnType, path: Path) -> None:
        self.name = name
        self.path = path
        self._kind = kind
        self._has_texts = kind.any_kind or "json" in leaves(kind)
        self._is_plain_text = kind.name == "string" and not (kind.trim or kind.null_values)

    def of(self, value: Any, written: Written, place: int | None = None) -> Any:
        """Returns what the column holds of a value, or of an element at its place in one. `written`
        is the text of the value. Raises WrongValue for a value that the column cannot hold.
        """
        try:
            found = self.path.found_in(value)
        except NoPlaceError as why:
            raise WrongValue(no_place(self._said(place), self.path, why)) from None
        if type(found) is str:
            if self._is_plain_text:
                return found
            found = clean_text(found, self._kind)
        if found is None:
            return None
        if not self._has_texts:
            return held(self._said(place), self._kind, found, None)
        text = written if place is None else written.at(place)
        text = text.at(*self.path.steps_in(value))
        return held(self._said(place), self._kind, found, text)

    def _said(self, place: int | None) -> str:
        return self.name if place is None else f"{self.name}[{place}]"


def _types_of(value: Any) -> str:
    kind = type(value)
    if kind is Integer:
        return types_of_whole(value)
    if kind is Fraction:
        return types_of_number(value)
    return BOOLEAN if kind is bool else TEXT
