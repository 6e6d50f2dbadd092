"""Values that are lines of CSV, each of them one row.

A block of values without line ends is a text of as many lines. Arrow's reader takes at least one
line for a row. So if there are as many rows as lines, including those with a wrong number of
fields, each value is one row. Otherwise the block is read in halves until the wrong value is alone.
It then stands between two lines of ours, which must come out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.csv as pv  # type: ignore[import-untyped]

from strandline_spark.parsing.cleaning import clean_fields
from strandline_spark.parsing.decoded import Decoded, data_of
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.parts.json_texts import reader_of

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ParseSettings

_LINE_END: Final = r"(\r\n|\r|\n)\z"
_BYTES_MAX: Final = 1 << 29
_EDGE: Final = "0"
"""The fields of our lines. The line before a block protects it, because a byte order mark there
would be dropped. The line after it shows an open quote, which would end without an error.
"""


class CsvDecoder:
    """The decoder for the settings of one table."""

    def __init__(self, settings: ParseSettings) -> None:
        self._names = list(settings.columns)
        self._texts = [reader_of(name, kind) for name, kind in settings.columns.items()]
        self._kinds = list(settings.columns.values())
        self._nulls = settings.null_values
        self._edge = settings.delimiter.join([_EDGE] * len(self._names)).encode()
        self._delimiter = settings.delimiter
        self._quote = settings.quote or False
        self._columns = {f"f{n}": pa.string() for n in range(len(self._names))}

    def decode(self, values: Any) -> Decoded:
        faults: dict[int, Fault] = {}
        data = bytes(data_of(values))
        if b"\n" in data or b"\r" in data:
            values = pc.replace_substring_regex(values, _LINE_END, "")
        blocks: list[list[Any]] = []
        self._read(values, 0, blocks, faults)
        columns = []
        for n, (texts, kind) in enumerate(zip(self._texts, self._kinds, strict=True)):
            parts = [block[n] for block in blocks]
            column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
            columns.append(texts.read(clean_fields(column, kind, self._nulls), faults))
        return Decoded(columns, faults)

    def _read(
        self, values: Any, first: int, blocks: list[list[Any]], faults: dict[int, Fault]
    ) -> None:
        size = len(values)
        block = self._rows(values, first, faults) if values.nbytes <= _BYTES_MAX else None
        if block is None and size > 1:
            half = size // 2
            self._read(values[:half], first, blocks, faults)
            self._read(values[half:], first + half, blocks, faults)
            return
        if block is None:
            faults[first] = self._not_one(values[0].as_py())
            block = [pa.nulls(1, pa.string())] * len(self._names)
        blocks.append(block)

    def _rows(self, values: Any, first: int, faults: dict[int, Fault]) -> list[Any] | None:
        """Returns a column of texts for each of the settings', null where there is a fault; None if
        values and rows are not one for one.
        """
        size = len(values)
        data = bytes(data_of(values))
        if size > 1 and (b"\n" in data or b"\r" in data):
            return None
        if data.endswith(b"\r"):  # with the next line end it would be a single one
            return None
        if size > 0 and len(self._names) > 1 and pc.min(pc.binary_length(values)).as_py() == 0:
            if size > 1:
                return None
            faults[first] = self._wrong_count(1, "")
            return [pa.nulls(1, pa.string())] * len(self._names)
        lines = pc.binary_replace_slice(values.cast(pa.binary()), 0, 0, b"\n")
        text = b"".join([self._edge, data_of(lines), b"\n", self._edge, b"\n"])
        skipped: dict[int, Fault] = {}

        def skip(row: Any) -> str:
            skipped[row.number - 2] = self._wrong_count(row.actual_columns, row.text)
            return "skip"

        try:
            table = pv.read_csv(
                pa.BufferReader(text),
                read_options=pv.ReadOptions(
                    column_names=list(self._columns), use_threads=False, block_size=len(text) + 1
                ),
                parse_options=pv.ParseOptions(
                    delimiter=self._delimiter,
                    quote_char=self._quote,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=skip,
                ),
                convert_options=pv.ConvertOptions(
                    column_types=self._columns, strings_can_be_null=False, check_utf8=False
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows + len(skipped) != size + 2 or not self._edges_hold(table):
            return None
        if not all(0 <= row < size for row in skipped):  # a value took in our last line
            return None
        columns = [column.combine_chunks()[1:-1] for column in table.columns]
        if not skipped:
            return columns
        faults.update((first + row, found) for row, found in skipped.items())
        right = np.ones(size, dtype=bool)
        right[list(skipped)] = False
        places = pa.array(np.cumsum(right) - 1, mask=~right)
        return [column.take(places) for column in columns]

    def _edges_hold(self, table: Any) -> bool:
        if table.num_rows < 2:
            return False
        last = table.num_rows - 1
        ends = [(column[0].as_py(), column[last].as_py()) for column in table.columns]
        return ends == [(_EDGE, _EDGE)] * len(ends)

    def _wrong_count(self, count: int, text: str) -> Fault:
        detail = f"{count} instead of {len(self._names)}: {shown(text)}"
        return fault(Reason.WRONG_FIELD_COUNT, detail)

    def _not_one(self, text: str) -> Fault:
        return fault(
            Reason.NOT_ONE_ROW, f"more than one line, or a quote that is not closed: {shown(text)}"
        )
