"""Batches of records for parsers, and what came of each record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.parsing import Parser, column_type, make_parser
from strandline_spark.parsing.settings import RECORD_TIME, ColumnType, Format, ParseSettings
from strandline_spark.source.schema import HEADER_TYPE, TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.parsing.settings import Parsed

FIRST_US = 1_700_000_000_000_000
Value = str | bytes | None
Outcome = tuple[Any, ...]
"""("good", columns), ("bad", reason, detail) or ("tombstone",)."""


def columns_of(**named: str | ColumnType) -> dict[str, ColumnType]:
    """Names and types, as pipeline.toml has them."""
    return {n: column_type(t) if isinstance(t, str) else t for n, t in named.items()}


def parser_of(
    form: Format, event_time: str = RECORD_TIME, /, options: Any = None, **named: Any
) -> Parser:
    """A parser of `named` columns."""
    return make_parser(ParseSettings(form, columns_of(**named), event_time, **(options or {})))


def batch_of(values: Sequence[Value], *, timestamps: Sequence[int | None] | None = None) -> Any:
    """Records a microsecond apart, unless their times are given."""
    data = [value.encode() if isinstance(value, str) else value for value in values]
    times = range(FIRST_US, FIRST_US + len(values)) if timestamps is None else timestamps
    arrays = [pa.array(data, pa.binary()), pa.array(times, TIMESTAMP_TYPE)]
    return pa.RecordBatch.from_arrays(arrays, names=["value", "timestamp"])


def records_of(*records: tuple[Value, bytes | None, Any]) -> Any:
    """A batch of values with keys and headers."""
    values, keys, headers = zip(*records, strict=True)
    plain = batch_of(values)
    arrays = [
        *plain.columns,
        pa.array(keys, pa.binary()),
        pa.array(headers, pa.list_(pa.field("element", HEADER_TYPE))),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[*plain.schema.names, "key", "headers"])


def outcomes_of(parsed: Parsed, size: int) -> list[Outcome]:
    """Of each row; fails unless each is in exactly one place, and in order."""
    parsed.good.validate(full=True)
    assert parsed.good.column("event_time").null_count == 0
    assert parsed.good.column("event_time").type == TIMESTAMP_TYPE
    good = zip(parsed.good_rows.to_pylist(), parsed.good.to_pylist(), strict=True)
    bad = zip(parsed.bad_rows.to_pylist(), parsed.reasons, parsed.details, strict=True)
    found: list[tuple[int, Outcome]] = [(row, ("good", columns)) for row, columns in good]
    assert [row for row, _ in found] == sorted(row for row, _ in found)
    found += [(row, ("bad", reason, detail)) for row, reason, detail in bad]
    found += [(row, ("tombstone",)) for row in parsed.tombstone_rows.to_pylist()]
    found.sort(key=lambda each: each[0])
    assert [row for row, _ in found] == list(range(size))
    return [outcome for _, outcome in found]


def outcomes(parser: Parser, values: Sequence[Value]) -> list[Outcome]:
    """Of each value, in one batch."""
    return outcomes_of(parser.parse(batch_of(values)), len(values))


def one_by_one(parser: Parser, values: Sequence[Value]) -> list[Outcome]:
    """Of each value, in a batch of its own, at the time that it has in one batch."""
    whole = batch_of(values)
    found = [outcomes_of(parser.parse(whole.slice(n, 1)), 1) for n in range(len(values))]
    return [outcome for (outcome,) in found]
