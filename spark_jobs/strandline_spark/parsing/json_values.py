"""Values that are JSON objects: whole blocks by Arrow's reader, and row by row where a block fails.

The rows decide what is right (`json_rows.py`); a block counts only where it provably says the same.
Its text begins each value's object with a marker field, whose name no JSON text can spell in
another way, and ends with an object of ours. The marker occurs as often as there are rows; so if
the reader finds that many objects at the top, each with a marker, each of them began where a value
began, and none of them reached into the next value, or there would be one less.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.json as pj  # type: ignore[import-untyped]

from strandline_spark.parsing.decoded import Decoded, bounds, data_of
from strandline_spark.parsing.json_rows import NESTED_MAX, WHITESPACE, JsonRows, merge_fields
from strandline_spark.parsing.texts import Texts, all_finite

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from strandline_spark.parsing.faults import Fault
    from strandline_spark.parsing.settings import ColumnType

PIECE: Final = 1000
"""Rows that are tried again together once a whole block has failed."""
_BYTES_MAX: Final = 1 << 29
"""Of a block: more than Arrow's reader takes at once is cut up."""
_MARKER: Final = "\x01"
_SPELT: Final = rb"\u0001"
"""A control character has no other spelling in JSON, as it is none of those with a short one."""
_PREFIX: Final = b'\n{"' + _SPELT + b'":1,'
_END: Final = b'\n{"' + _SPELT + b'":2}\n'
_NOT_FINITE: Final = re.compile(rb"NaN|Inf")
_FIELD_TYPES: Final = {pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}


@dataclass(frozen=True, slots=True)
class _Block:
    columns: list[Any]
    """Of their own types, or of texts that are still to be read."""
    faults: dict[int, Fault]
    new_fields: Callable[[Collection[int]], dict[str, str]]


class JsonDecoder:
    """`columns` as in the settings."""

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        self._texts = {name: Texts(name, kind) for name, kind in columns.items()}
        self._columns = columns
        self.rows = JsonRows(columns)
        fields = [(name, _read_as(kind)) for name, kind in columns.items()]
        self._schema = pa.schema([(_MARKER, pa.int64()), *fields])

    def decode(self, values: Any) -> Decoded:
        whole = self._fast(values)
        if whole is not None:
            return self._joined([(0, whole)])
        pieces: list[tuple[int, _Block]] = []
        for start in range(0, max(len(values), 1), PIECE):
            piece = values[start : start + PIECE]
            block = self._fast(piece) if len(values) > PIECE else None
            pieces.append((start, block or self._slow(piece)))
        return self._joined(pieces)

    def _joined(self, pieces: list[tuple[int, _Block]]) -> Decoded:
        """Texts are read here, for both ways."""
        faults: dict[int, Fault] = {}
        for start, block in pieces:
            faults.update((start + row, found) for row, found in block.faults.items())
        columns = []
        for n, (name, kind) in enumerate(self._columns.items()):
            parts = [block.columns[n] for _, block in pieces]
            if len({part.type for part in parts}) > 1:  # decimals: texts of rows, numbers of blocks
                parts = [pc.cast(part, pa.string()) for part in parts]
            column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
            if column.type != kind.arrow:
                column = self._texts[name].read(column, faults)
            columns.append(column)

        def new_fields(bad: Collection[int]) -> dict[str, str]:
            found: dict[str, str] = {}
            for start, block in pieces:
                end = start + len(block.columns[0])
                merge_fields(found, block.new_fields([n - start for n in bad if start <= n < end]))
            return found

        return Decoded(columns, faults, new_fields)

    def _slow(self, values: Any) -> _Block:
        found = self.rows.decode(values.to_pylist())
        columns = []
        for name, kind in self._columns.items():
            columns.append(pa.array(found.columns[name], type=_row_type(kind)))
        return _Block(columns, found.faults, found.new_fields)

    def _table(self, text: bytes) -> Any:
        """None if Arrow refuses a row."""
        try:
            return pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(explicit_schema=self._schema),
            )
        except pa.ArrowInvalid:
            return None

    def _fast(self, values: Any) -> _Block | None:
        """None if a row is wrong, or may be."""
        text = _marked(values)
        table = None if text is None else self._table(text)
        size = len(values)
        if text is None or table is None or table.num_rows != size + 1:
            return None
        if table.column(0).null_count:
            return None
        arrays = [column.combine_chunks()[:size] for column in table.columns]
        columns = arrays[1 : len(self._schema)]
        if not all(map(_is_exact, columns)):
            return None
        fields = dict(zip(table.column_names, arrays, strict=True))
        extra = {name: fields[name] for name in table.column_names[len(self._schema) :]}
        if extra and _NOT_FINITE.search(text):
            return None
        types = {n: _FIELD_TYPES.get(a.type, "string") for n, a in extra.items() if _has_value(a)}

        def new_fields(bad: Collection[int]) -> dict[str, str]:
            if not types or not bad:
                return types
            return self._slow(values).new_fields(bad)

        return _Block(columns, {}, new_fields)


def _marked(values: Any) -> bytes | None:
    """The text of a block; None if its proof does not hold."""
    size = len(values)
    if size == 0 or values.nbytes > _BYTES_MAX:
        return None
    if not pc.all(pc.starts_with(values, "{")).as_py():
        values = pc.utf8_ltrim(values, characters=WHITESPACE)
        if not pc.all(pc.starts_with(values, "{")).as_py():
            return None
    marked = pc.binary_replace_slice(values.cast(pa.binary()), 0, 1, _PREFIX)
    text = b"".join([data_of(marked), _END])
    data = np.frombuffer(text, dtype=np.uint8)
    # Each marker has one backslash, so without others there is no other marker: quicker to see.
    if _count(data, "\\") != size + 1 and text.count(_SPELT) != size + 1:
        return None
    return text if _is_flat(data, bounds(marked)) else None


def _is_flat(data: Any, ends: Any) -> bool:
    """Whether no value nests deeper than it may. Arrow's reader goes down with its process where
    nesting is very deep, so it must not see such a value.
    """
    if _count(data, "{") - len(ends) + _count(data, "[") <= NESTED_MAX:
        return True
    opening = np.flatnonzero((data == ord("{")) | (data == ord("[")))
    counts = np.diff(np.searchsorted(opening, ends - ends[0]))
    return bool(counts.max() <= NESTED_MAX + 1)


def _count(data: Any, character: str) -> int:
    return int(np.count_nonzero(data == ord(character)))


def _read_as(kind: ColumnType) -> Any:
    """What Arrow's reader makes of a column: dates and times stay texts."""
    return pa.string() if kind.name in ("date", "timestamp") else kind.arrow


def _row_type(kind: ColumnType) -> Any:
    return kind.arrow if kind.name in ("int", "bigint", "double", "boolean") else pa.string()


def _is_exact(column: Any) -> bool:
    """Arrow's reader lets NaN pass, and decimals with too many digits."""
    if pa.types.is_floating(column.type):
        return all_finite(column)
    if pa.types.is_decimal(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return False
    return True


def _has_value(column: Any) -> bool:
    return bool(column.null_count < len(column))
