"""The order of rows of one key: which of them is the latest.

A row has a place: the values of the order columns, then topic, partition and offset. Of a record
with several rows each has its position too. Without order columns the offset decides, so all rows
of a key have to be of one partition. A row with null in a key or order column has no place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.delta_log.table_log import Snapshot

DELETED: Final = "is deleted"
"""The column of rows that delete their key. No column of silver has a blank in its name."""
RECORD: Final = ("topic", "partition", "offset")
POSITION_KEY: Final = "strandline.position"
"""Key in the configuration of a silver table whose records have several rows: the column with the
position of a row in its record.
"""


def order_column(number: int) -> str:
    """Returns the name of the column with the values of an order column."""
    return f"order {number}"


def row_id(silver: Snapshot) -> tuple[str, ...]:
    """Returns the columns that name a row of silver."""
    position = silver.configuration.get(POSITION_KEY)
    return RECORD if position is None else (*RECORD, position)


def latest(rows: Any, groups: Sequence[str], order: Sequence[str]) -> Any:
    """Returns a mask of the last row, by `order`, of those with equal values in `groups`.

    No value of a group is null. The first column of `order` counts most; null is the least.
    """
    number, codes = numbered([rows.column(name) for name in groups])
    ranks = [_rank(rows.column(name)) for name in reversed(order)]
    rising = np.lexsort(ranks)
    last = np.empty(number, np.int64)
    last[codes[rising]] = rising  # of a group's rows the last one stays
    mask = np.zeros(rows.num_rows, bool)
    mask[last] = True
    return mask


def numbered(columns: Sequence[Any]) -> tuple[int, Any]:
    """Returns how many different groups of values there are, and the number of each row's group."""
    number, codes = 1, np.zeros(len(columns[0]), np.int64)
    for column in columns:
        array = _one(column).dictionary_encode()
        own = array.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if number == 1:
            number, codes = len(array.dictionary), own
            continue
        # Below 2^63: each factor is at most the number of rows.
        pairs, codes = np.unique(codes * len(array.dictionary) + own, return_inverse=True)
        number = len(pairs)
    return number, codes


def groups_of_several(keys: Sequence[Any], others: Sequence[Any]) -> Any:
    """Returns a mask of the rows whose key has rows with different values in `others`."""
    number, codes = numbered(keys)
    _, pairs = numbered([*keys, *others])
    first = np.unique(pairs, return_index=True)[1]
    return np.bincount(codes[first], minlength=number)[codes] > 1


def with_keys_of(rows: Any, others: Any, keys: Sequence[str]) -> Any:
    """Returns a mask of the rows whose key, of one or more columns, is one of the others'."""
    near = np.ones(rows.num_rows, bool)
    for name in keys:
        known = _one(others.column(name)).unique()
        near &= np.asarray(pc.is_in(rows.column(name), value_set=known), bool)
    if len(keys) == 1 or not near.any():
        return near
    some = rows.filter(pa.array(near))
    _, codes = numbered([_joined(some.column(name), others.column(name)) for name in keys])
    near[near] = np.isin(codes[: some.num_rows], codes[some.num_rows :])
    return near


def without_place(rows: Any, needed: Sequence[tuple[str, str]]) -> tuple[Any, dict[str, int]]:
    """Returns the rows whose `needed` columns all have a value, and the number of the others by the
    first column that has none. `needed` has the columns, and the names they are counted under.
    """
    left_out: dict[str, int] = {}
    for column, name in needed:
        if rows.column(column).null_count == 0:
            continue
        left_out[name] = left_out.get(name, 0) + rows.column(column).null_count
        rows = rows.filter(pc.is_valid(rows.column(column)))
    return rows, left_out


def _joined(column: Any, other: Any) -> Any:
    return pa.chunked_array([*column.chunks, *other.cast(column.type).chunks], column.type)


def _one(column: Any) -> Any:
    """Returns the column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _rank(column: Any) -> Any:
    """Returns numbers that are ordered like the column's values. NaN is above all other numbers, as
    in Spark.
    """
    if column.null_count > 0:
        known = np.zeros(len(column), np.int64)
        there = np.asarray(column.is_valid(), bool)
        known[there] = 1 + np.unique(_rank(column.drop_null()), return_inverse=True)[1]
        return known
    if pa.types.is_integer(column.type):
        return _one(column).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(column.type):
        return _one(column).cast(pa.int8()).to_numpy(zero_copy_only=False)
    return pc.rank(_one(column), sort_keys=_RISING, tiebreaker="dense").to_numpy()


_RISING: Final = [("", "ascending", "at_end")]
