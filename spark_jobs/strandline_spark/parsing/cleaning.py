"""The keys of a column beside its type: texts that mean null, a default, and whether it must have a
value.

A text is trimmed, compared with the texts that mean null, and read as the column's type. Then a
default fills the nulls, and a required column has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.errors import OptionError
from strandline_spark.parsing.faults import Reason, fault
from strandline_spark.parsing.parts.json_texts import reader_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.parsing.decoded import Decoded
    from strandline_spark.parsing.settings import ColumnType

BLANKS: Final = " \t\n\v\f\r\u00a0"
"""The characters that `trim` removes from both ends."""


def clean_text(text: str, kind: ColumnType) -> str | None:
    """Returns the text that is read; None if it means null."""
    if kind.trim:
        text = text.strip(BLANKS)
    return None if text in kind.null_values else text


def clean_texts(texts: Any, kind: ColumnType, null_values: tuple[str, ...] = ()) -> Any:
    """Returns the texts that are read, null for those that mean null in this column or, by
    `null_values`, in all.
    """
    if kind.trim:
        texts = pc.utf8_trim(texts, BLANKS)
    said = (*null_values, *kind.null_values)
    if not said:
        return texts
    none = pc.is_in(texts, value_set=pa.array(said, type=pa.string()))
    return pc.if_else(none, None, texts) if pc.any(none, min_count=0).as_py() else texts


def clean_fields(texts: Any, kind: ColumnType, null_values: tuple[str, ...]) -> Any:
    """Returns the texts of csv or regex that are read. The empty one means null too, unless the
    column is of strings.
    """
    return clean_texts(texts, kind, null_values if kind.name == "string" else (*null_values, ""))


class Completion:
    """The defaults and the required columns of one table."""

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        """Raises OptionError for a default that is no value of its column."""
        self._defaults = {
            place: default_of(name, kind)
            for place, (name, kind) in enumerate(columns.items())
            if kind.default is not None
        }
        self._required = [
            (place, name) for place, (name, kind) in enumerate(columns.items()) if kind.required
        ]

    def complete(self, decoded: Decoded) -> None:
        """Fills nulls of the columns, and adds a fault for each row without a required value."""
        columns = decoded.columns
        for place, default in self._defaults.items():
            if columns[place].null_count:
                columns[place] = pc.fill_null(columns[place], default)
        for place, name in self._required:
            if columns[place].null_count:
                missing = fault(Reason.NULL, f"column {name} is required, and it is null")
                empty = columns[place].is_null().to_numpy(zero_copy_only=False)
                for row in np.flatnonzero(empty).tolist():
                    decoded.faults.setdefault(row, missing)


def default_of(name: str, kind: ColumnType) -> Any:
    """Returns the default as a scalar of the column's type. Raises OptionError."""
    found = reader_of(name, kind).read(pa.array([kind.default], pa.string()), {})
    if found.null_count:
        form = "" if kind.format is None else f" in the format {kind.format!r}"
        raise OptionError(
            f"[silver.columns] {name}: default {kind.default!r} is no {kind.name}{form}"
        )
    return found[0]
