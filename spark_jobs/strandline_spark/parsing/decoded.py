"""The result of a format's decoder, before event times are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from strandline_spark.parsing.faults import Fault


def no_fields(bad: Collection[int]) -> dict[str, str]:
    """Returns no new fields, for a format that has none."""
    del bad
    return {}


@dataclass(slots=True)
class Decoded:
    """The result for one array of values."""

    columns: list[Any]
    """An array for each column of the settings, as long as the values. Its value in a row with a
    fault means nothing.
    """
    faults: dict[int, Fault]
    """Faults by row."""
    new_fields: Callable[[Collection[int]], dict[str, str]] = no_fields
    """A function that returns names and types of the fields without a column, in all rows except
    those given.
    """
    left_out: frozenset[str] = frozenset()
    """Places in objects that columns read in part, which no column reads."""


class Decoder(Protocol):
    """The decoder of one format."""

    def decode(self, values: Any) -> Decoded:
        """Decodes `values`, which have no null: an array of strings, or of binary for avro and
        protobuf."""


def bounds(array: Any) -> Any:
    """Returns the offset of each value of a string or binary array in its data, and the end of the
    last.

    That is one offset more than values, as a numpy array.
    """
    if len(array) == 0:
        return np.zeros(1, dtype=np.int32)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]


def data_of(array: Any) -> memoryview:
    """Returns all values of a string or binary array, one after the other."""
    ends = bounds(array)
    data = array.buffers()[2] if len(array) > 0 else None
    return memoryview(b"" if data is None else data)[int(ends[0]) : int(ends[-1])]


def rows_array(rows: Any) -> Any:
    """Returns row numbers in Arrow's form."""
    return pa.array(np.asarray(rows, dtype=np.int64), type=pa.int64())
