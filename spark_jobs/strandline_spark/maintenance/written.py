"""Files that maintenance writes: rows of existing files, with statistics for readers that skip.

Delta's statistics have least and greatest value of each plain column. So DuckDB, Spark and others
open only the files that a condition needs.
"""

from __future__ import annotations

import json
import math
import os
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.bronze.range_file import ROW_GROUP_BYTES
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync, sync_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.delta_log.commit import Change

_COLUMNS_MAX: Final = 32
_TEXT_MAX: Final = 32
"""Length of a text that is kept whole in the statistics; longer ones are left out."""
_YEAR_1: Final = -62_135_596_800_000
_YEAR_10000: Final = 253_402_300_800_000
"""Times in milliseconds; those between have a text in the statistics."""


class NewFile:
    """One new data file, under the table's folder."""

    def __init__(self, root: str, folder: str, schema: Any) -> None:
        name = f"compact-{os.urandom(8).hex()}.parquet"
        self.path = os.path.join(folder, name) if folder else name
        self.rows = 0
        self._root = root
        self._full = os.path.join(root, self.path)
        self._pending: list[Any] = []
        self._statistics = {
            field.name: Statistics(field.type)
            for field in list(schema)[:_COLUMNS_MAX]
            if Statistics.fit(field.type)
        }
        self._writer = files.parquet_writer(
            self._full, schema, compression="zstd", compression_level=1
        )

    def add(self, rows: Any) -> None:
        """Takes a table of the file's columns."""
        self.rows += rows.num_rows
        for name, statistics in self._statistics.items():
            statistics.take(rows.column(name))
        self._pending.append(rows)
        if sum(one.nbytes for one in self._pending) >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Writes what is left, and syncs the file."""
        self._flush()
        self._writer.close()
        sync(self._full)
        sync_names(self._full, self._root)

    def abandon(self) -> None:
        self._writer.close()

    def add_to(self, change: Change, values: Mapping[str, str | None], *, data_change: bool) -> int:
        """Adds the closed file to a change. Returns its size."""
        size = files.size(self._full)
        least, most, nulls = {}, {}, {}
        for name, one in self._statistics.items():
            nulls[name] = one.nulls
            if one.is_known:
                least[name], most[name] = one.bounds()
        stats = {
            "numRecords": self.rows,
            "minValues": least,
            "maxValues": most,
            "nullCount": nulls,
        }
        change.add(self.path, size, values, json.dumps(stats), data_change=data_change)
        return size

    def _flush(self) -> None:
        if self._pending:
            rows = pa.concat_tables(self._pending)
            self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
            self._pending = []


class Statistics:
    """Least and greatest value of one column, and the number of nulls."""

    def __init__(self, kind: Any) -> None:
        self.nulls = 0
        self._kind = kind
        self._least: Any = None
        self._most: Any = None
        self._is_whole = True

    @staticmethod
    def fit(kind: Any) -> bool:
        """True if values of the type have statistics here."""
        kinds = pa.types
        return bool(
            kinds.is_integer(kind)
            or kinds.is_floating(kind)
            or kinds.is_string(kind)
            or kinds.is_date32(kind)
            or (kinds.is_timestamp(kind) and kind.unit == "us")
        )

    @property
    def is_known(self) -> bool:
        return self._is_whole and self._least is not None

    def take(self, column: Any) -> None:
        self.nulls += column.null_count
        if pa.types.is_floating(self._kind) and pc.any(pc.is_nan(column)).as_py():
            self._is_whole = False
        if pa.types.is_timestamp(self._kind):
            column = column.cast(pa.int64())
        elif pa.types.is_date32(self._kind):
            column = column.cast(pa.int32())
        least, most = (one.as_py() for one in pc.min_max(column).values())
        if least is None or most is None:
            return
        self._least = least if self._least is None else min(least, self._least)
        self._most = most if self._most is None else max(most, self._most)
        if isinstance(most, str) and max(len(self._least), len(self._most)) > _TEXT_MAX:
            self._is_whole = False
        if isinstance(most, float) and not (math.isfinite(least) and math.isfinite(most)):
            self._is_whole = False
        if pa.types.is_timestamp(self._kind):
            self._is_whole &= (
                self._least // 1000 >= _YEAR_1 and self._most // 1000 < _YEAR_10000 - 1
            )

    def bounds(self) -> tuple[Any, Any]:
        """Returns the two as Delta writes them: times in whole milliseconds around them."""
        if pa.types.is_timestamp(self._kind):
            ms = (self._least // 1000, -(-self._most // 1000))
            return f"{np.datetime64(ms[0], 'ms')}Z", f"{np.datetime64(ms[1], 'ms')}Z"
        if pa.types.is_date32(self._kind):
            first, last = (date.fromordinal(719_163 + one) for one in (self._least, self._most))
            return first.isoformat(), last.isoformat()
        return self._least, self._most
