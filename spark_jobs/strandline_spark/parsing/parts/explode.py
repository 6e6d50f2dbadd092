"""The elements of one array of each record as rows: offset and position are their key.

A column whose path begins with the array's goes on in the element. A record without elements is one
row, whose position is null. So each record has a row, and a fault in any element is the record's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.faults import Fault, Reason, fault
from strandline_spark.parsing.parts.paths import NoPlaceError, Path, path_of
from strandline_spark.parsing.settings import POSITION, paths_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.parsing.settings import ColumnType

ELEMENTS_MAX: Final = 100_000
"""Limit of the elements of one record."""
REPEATED_MAX: Final = 1 << 26
"""Limit of the bytes that the rows of one record repeat in one column."""


@dataclass(frozen=True, slots=True)
class Explode:
    """The array, and the columns that are read from its elements."""

    path: Path
    inner: Mapping[str, Path]
    """Paths within an element, by column."""
    position: str
    """The column of the element's place."""

    def holds(self, column: str) -> bool:
        """True for a column with a value of each element."""
        return column in self.inner or column == self.position

    def elements_in(self, value: Any) -> list[Any]:
        """Returns the elements that a decoded value has; a single None without any. Raises
        NoPlaceError for what is no array.
        """
        found = self.path.found_in(value)
        if found is None:
            return [None]
        if type(found) is not list:
            raise NoPlaceError(self.path.text, found, "array to explode")
        return found or [None]

    def positions_of(self, elements: list[Any], value: Any) -> list[int | None]:
        """Returns the places of these elements of a value."""
        if elements == [None] and not self.path.found_in(value):
            return [None]
        return list(range(len(elements)))


def explode_of(columns: Mapping[str, ColumnType], text: str | None) -> Explode | None:
    """Returns what the setting `explode` says of these columns; None without it."""
    if text is None:
        return None
    path = path_of(text)
    size = len(path.steps)
    inner = {
        name: Path(one.text, one.steps[size:])
        for name, one in paths_of(columns).items()
        if columns[name].source is None and one.steps[:size] == path.steps
    }
    position = next(name for name, kind in columns.items() if kind.source == POSITION)
    return Explode(path, inner, position)


def parents_of(lists: Any) -> Any:
    """Returns the row of each element of an array of lists, none of which is null or empty."""
    return np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())


def repeats(columns: Mapping[str, Any], counts: Any) -> dict[int, Fault]:
    """Returns faults for the rows whose elements are too many, or would repeat too many bytes of
    one of the columns.
    """
    faults: dict[int, Fault] = {}
    for row in np.flatnonzero(counts > ELEMENTS_MAX).tolist():
        detail = f"{counts[row]:,} elements, above {ELEMENTS_MAX:,}"
        faults[row] = fault(Reason.OUT_OF_RANGE, detail)
    for name, column in columns.items():
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            continue
        sizes = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        total = sizes.astype(np.int64) * counts
        for row in np.flatnonzero((total > REPEATED_MAX) & (counts > 1)).tolist():
            detail = f"{counts[row]:,} elements would repeat {sizes[row]:,} bytes of {name}"
            faults.setdefault(row, fault(Reason.OUT_OF_RANGE, detail))
    return faults
