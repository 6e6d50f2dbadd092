"""Readers of JSON that take one of the two ways alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_spark.parsing.json_rows import JsonColumns, JsonRows
from strandline_spark.parsing.json_values import JsonDecoder
from support.parsing import Outcome, Value, batch_of, outcomes_of, parser_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_spark.parsing.settings import ColumnType

TYPES = {
    "i": "int",
    "l": "bigint",
    "d": "double",
    "s": "string",
    "b": "boolean",
    "m": "decimal(6,2)",
    "day": "date",
    "ts": "timestamp",
}


class OnlyRows(JsonDecoder):
    """Every value read by the rows' own reader."""

    def _objects(self, texts: list[str]) -> tuple[list[Any], set[int]]:
        return [self._nothing] * len(texts), set(range(len(texts)))


class NoRows(JsonDecoder):
    """Of no value the rows' own reader is asked."""

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        super().__init__(columns)
        self._rows = _NothingToRead(columns)


class _NothingToRead(JsonRows):
    def decode(self, texts: list[str]) -> JsonColumns:
        assert texts == []
        return super().decode(texts)


def in_rows(values: Sequence[Value]) -> tuple[list[Outcome], dict[str, str]]:
    parser = parser_of("json", **TYPES)
    parser._decoder = OnlyRows(parser._settings.columns)
    parsed = parser.parse(batch_of(values))
    return outcomes_of(parsed, len(values)), parsed.new_fields


def columns(outcome: Outcome) -> dict[str, Any]:
    assert outcome[0] == "good", outcome
    return {name: value for name, value in outcome[1].items() if value is not None}
