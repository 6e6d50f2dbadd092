"""What a format makes of values, before event times are looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from strandline_spark.parsing.faults import Fault


def no_fields(bad: Collection[int]) -> dict[str, str]:
    """The new fields of a format that has none."""
    del bad
    return {}


@dataclass(slots=True)
class Decoded:
    """Of one array of values."""

    columns: list[Any]
    """An array for each column of the settings, as long as the values; what it holds in a row with
    a fault means nothing.
    """
    faults: dict[int, Fault]
    """By row."""
    new_fields: Callable[[Collection[int]], dict[str, str]] = no_fields
    """Names and types of the fields that are no columns, of all rows but those given."""


class Decoder(Protocol):
    """One format."""

    def decode(self, values: Any) -> Decoded:
        """`values` has no null: an array of strings, or of binary for avro."""


def bounds(array: Any) -> Any:
    """Where each value of a string or binary array begins in its data, and the last one ends: one
    offset more than values, as a numpy array.
    """
    if len(array) == 0:
        return np.zeros(1, dtype=np.int32)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]


def data_of(array: Any) -> memoryview:
    """All values of a string or binary array, one after the other."""
    ends = bounds(array)
    data = array.buffers()[2] if len(array) > 0 else None
    return memoryview(b"" if data is None else data)[int(ends[0]) : int(ends[-1])]


def rows_array(rows: Any) -> Any:
    """Row numbers as Arrow has them."""
    return pa.array(np.asarray(rows, dtype=np.int64), type=pa.int64())
