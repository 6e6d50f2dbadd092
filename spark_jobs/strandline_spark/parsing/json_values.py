"""Values that are JSON objects, read by msgspec. `json_rows.py` reads a value again, and decides,
if msgspec refuses it or might read it differently.

There are two such cases. Of two fields with one name msgspec silently takes the last; but then the
value has more quotes than the fields and strings found in it. And it reads an integer -0 as 0.0. A
value that msgspec accepts has no fields except the columns, so it nests nothing, and is a single
object. If a column is a part of a field, or of a type for one, `json_rows.py` reads all values.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from msgspec import UNSET, Raw, UnsetType

from strandline_spark.parsing.cleaning import clean_text, clean_texts
from strandline_spark.parsing.decoded import Decoded, data_of
from strandline_spark.parsing.epochs import EPOCHS
from strandline_spark.parsing.inference import is_decimal, is_double, merge_fields
from strandline_spark.parsing.json_rows import JsonColumns, JsonRows
from strandline_spark.parsing.parts.json_parts import RANGES, held_type
from strandline_spark.parsing.parts.json_texts import InnerTexts
from strandline_spark.parsing.parts.type_names import array_type
from strandline_spark.parsing.settings import paths_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from strandline_spark.parsing.parts.explode import Explode
    from strandline_spark.parsing.settings import ColumnType


_MINUS_ZERO: Final = re.compile(r"-0[\s,}]")
_READABLE: Final = re.compile(r'[^"\\\x00-\x1f]*')
"""Field names that msgspec can have. It refuses a field with another name, which is no column."""
_DOUBTFUL: Final = object()
"""The mark for a value that is no number, or in a spelling that only `json_rows.py` reads."""
_PLAIN_MAX: Final = 15
"""Characters of a number without an exponent that a double and a decimal of a new field hold."""


class JsonDecoder:
    """The decoder; `columns` and `ignores_new_fields` as in the settings."""

    def __init__(
        self,
        columns: Mapping[str, ColumnType],
        *,
        ignores_new_fields: bool = False,
        explode: Explode | None = None,
        takes_any_value: bool = False,
    ) -> None:
        """Prepares the decoder. With `explode` a column of elements holds a list for each value.
        With `takes_any_value`, and without new fields, a value may be another one than an object.
        """
        if explode is not None:
            rows = JsonRows(columns, explode, ignores_new_fields=ignores_new_fields)
            columns = {
                name: array_type(kind) if explode.holds(name) else kind
                for name, kind in columns.items()
            }
        else:
            rows = JsonRows(
                columns,
                ignores_new_fields=ignores_new_fields,
                takes_any_value=takes_any_value,
            )
        self._columns = columns
        self._ignores = ignores_new_fields
        self._texts = {name: InnerTexts(name, kind) for name, kind in columns.items()}
        self._rows = rows
        fields = [path.plain for path in paths_of(columns).values()]
        self._is_flat = None not in fields and not any(map(_has_parts, columns.values()))
        names = {f"f{n}": name for n, name in enumerate(fields) if name is not None}
        readable = {
            field: name
            for field, name in names.items()
            if self._is_flat and _READABLE.fullmatch(name)
        }
        kinds = {f"f{n}": _read_as(kind) for n, kind in enumerate(columns.values())}
        # Names f0, f1, ... cannot conflict with those of Python or msgspec; a column's own name
        # might.
        struct = msgspec.defstruct(
            "Fields",
            [(field, kinds[field] | UnsetType, UNSET) for field in readable],
            rename=readable,
            forbid_unknown_fields=True,
            gc=False,
        )
        self._decode = msgspec.json.Decoder(struct).decode
        self._nothing = struct()
        self._getters = [
            attrgetter(field) if field in readable else lambda one: UNSET
            for field in (f"f{n}" for n in range(len(columns)))
        ]
        self._kinds = list(enumerate(columns.values()))

    def decode(self, values: Any) -> Decoded:
        texts: list[str] = values.to_pylist()
        objects, doubtful = self._objects(texts)
        columns = [_Column(kind, list(map(self._getters[n], objects))) for n, kind in self._kinds]
        for column in columns:
            doubtful |= column.doubtful(texts)
        for column in columns:
            column.forget(doubtful)
        quotes = _quotes(values, texts) - sum(_quotes_of(texts[row]) for row in doubtful)
        if quotes != 2 * sum(column.names_and_strings() for column in columns):
            doubtful |= self._doubled(texts, objects, doubtful)
        rows = sorted(doubtful)
        again = self._rows.decode([texts[row] for row in rows])
        faults = {rows[place]: one for place, one in again.faults.items()}
        arrays = []
        for (name, kind), column in zip(self._columns.items(), columns, strict=True):
            array = column.replaced(rows, again.columns[name])
            if array.type == pa.string() and not _is_raw(kind) and kind.name != "json":
                array = clean_texts(array, kind)
            arrays.append(self._texts[name].read(array, faults))
        if self._ignores:
            return Decoded(arrays, faults)

        def new_fields(bad: Collection[int]) -> dict[str, str]:
            return _new_fields(again, rows, bad)

        return Decoded(arrays, faults, new_fields, frozenset(again.left_out))

    def _objects(self, texts: list[str]) -> tuple[list[Any], set[int]]:
        """Returns the objects, and the rows that msgspec refuses or must not read."""
        if not self._is_flat:
            return [self._nothing] * len(texts), set(range(len(texts)))
        try:
            return list(map(self._decode, texts)), set()
        except (msgspec.MsgspecError, RecursionError):
            pass
        objects, refused = [], set()
        for row, text in enumerate(texts):
            try:
                objects.append(self._decode(text))
            except (msgspec.MsgspecError, RecursionError):
                objects.append(self._nothing)
                refused.add(row)
        return objects, refused

    def _doubled(self, texts: list[str], objects: list[Any], doubtful: set[int]) -> set[int]:
        """Returns the rows, among those not yet doubtful, in which a field occurs twice."""
        found = set()
        for row, (text, one) in enumerate(zip(texts, objects, strict=True)):
            if row not in doubtful:
                fields = [value for get in self._getters if (value := get(one)) is not UNSET]
                expected = len(fields) + sum(map(_is_string, fields))
                if _quotes_of(text) != 2 * expected:
                    found.add(row)
        return found


class _Column:
    """One column's values as msgspec has them, UNSET in a row without the field."""

    def __init__(self, kind: ColumnType, values: list[Any]) -> None:
        self._kind = kind
        self._values = values
        self._array: Any = None
        self._absent = 0
        self._quoted: set[int] = set()
        """Rows of a decimal column whose number is a string."""

    def doubtful(self, texts: list[str]) -> set[int]:
        """Returns the rows whose value is, or may be, other than msgspec read it."""
        values = self._values
        if not _is_raw(self._kind):
            if self._kind.name != "double" or 0.0 not in values:
                return set()
            zeros = (row for row, value in enumerate(values) if value == 0.0)
            return {row for row in zeros if _MINUS_ZERO.search(texts[row])}
        written = [value if value is UNSET else bytes(value).decode() for value in values]
        number = _number_held(self._kind) if self._kind.any_kind else _number_of
        values[:] = [number(text) for text in written]
        if self._kind.trim or self._kind.null_values:
            self._clean(written)
        self._quoted = {row for row, text in enumerate(written) if _is_quoted(text)}
        return {row for row, value in enumerate(values) if value is _DOUBTFUL}

    def _clean(self, written: list[Any]) -> None:
        """Cleans the numbers that are strings. One with an escape is doubtful already."""
        for row, (text, value) in enumerate(zip(written, self._values, strict=True)):
            if type(value) is str and _is_quoted(text):
                self._values[row] = clean_text(value, self._kind)

    def forget(self, rows: set[int]) -> None:
        for row in rows:
            self._values[row] = UNSET
        self._quoted -= rows
        self._make_array()

    def _make_array(self) -> None:
        kind = held_type(self._kind)
        try:
            self._array, self._absent = pa.array(self._values, kind), 0
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # UNSET is nothing that Arrow knows
            self._absent = self._values.count(UNSET)
            values = [None if value is UNSET else value for value in self._values]
            self._array = pa.array(values, kind)

    def names_and_strings(self) -> int:
        """Returns the number of fields, and of those that are strings: each has two quotes."""
        names = len(self._values) - self._absent
        if _is_raw(self._kind):
            return names + len(self._quoted)
        is_text = held_type(self._kind) == pa.string()
        return names + (len(self._values) - self._array.null_count if is_text else 0)

    def replaced(self, rows: list[int], values: list[Any]) -> Any:
        """Returns an array with these values in these rows."""
        if rows:
            for row, value in zip(rows, values, strict=True):
                self._values[row] = value
            self._make_array()
        return self._array


def _read_as(kind: ColumnType) -> Any:
    """Returns the type that msgspec reads: dates and times stay texts, decimals stay as written."""
    if kind.name in RANGES:
        low, high = RANGES[kind.name]
        return Annotated[int, msgspec.Meta(ge=low, le=high)] | None
    if _is_raw(kind):
        return Raw
    return {"double": float, "boolean": bool}.get(kind.name, str) | None


def _is_raw(kind: ColumnType) -> bool:
    """True if a number is taken as written: decimals, times since 1970, and numbers that must not
    lose a digit.
    """
    is_exact = kind.name.startswith("decimal") or kind.format in EPOCHS
    return is_exact or (kind.any_kind and kind.name == "double")


def _has_parts(kind: ColumnType) -> bool:
    return kind.is_nested or kind.name == "json"


def _is_string(value: Any) -> bool:
    return type(value) is str or (type(value) is Raw and _is_quoted(bytes(value).decode()))


def _is_quoted(written: Any) -> bool:
    return written is not UNSET and written[0] == '"'


def _number_of(written: Any) -> Any:
    """Returns the text of the number in a decimal's field."""
    if written is UNSET or written == "null":
        return UNSET if written is UNSET else None
    if written[0] == '"':
        return _DOUBTFUL if "\\" in written else written[1:-1]
    return written if written[0] in "-0123456789" else _DOUBTFUL


def _number_held(kind: ColumnType) -> Callable[[Any], Any]:
    """Returns a reader for the field of a column whose type a new field has set."""
    is_held, read = (is_double, float) if kind.name == "double" else (is_decimal, str)

    def number(written: Any) -> Any:
        text = None if written is UNSET else _number_of(written)
        if type(text) is not str or written[0] == '"':
            return written if written is UNSET else None if text is None else _DOUBTFUL
        is_plain = len(text) <= _PLAIN_MAX and "e" not in text and "E" not in text
        return read(text) if is_plain or is_held(text) else _DOUBTFUL

    return number


def _quotes(values: Any, texts: list[str]) -> int:
    """Returns the number of quotes that begin or end a name or a string."""
    data = np.frombuffer(data_of(values), dtype=np.uint8)
    quotes = int(np.count_nonzero(data == ord('"')))
    if not (data == ord("\\")).any():
        return quotes
    escaped = (text for text in texts if "\\" in text)
    return quotes - sum(text.count('"') - _quotes_of(text) for text in escaped)


def _quotes_of(text: str) -> int:
    if "\\" not in text:
        return text.count('"')
    plain = text.replace("\\\\", "")
    return plain.count('"') - plain.count('\\"')


def _new_fields(again: JsonColumns, rows: list[int], bad: Collection[int]) -> dict[str, str]:
    """Returns the fields that are no columns: msgspec accepts no value that has one."""
    found: dict[str, str] = {}
    for place, fields in again.fields.items():
        if rows[place] not in bad and place not in again.faults:
            merge_fields(found, fields)
    return found
