"""Parsers of JSON that take one of the two ways alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_spark.parsing.json_values import JsonDecoder
from support.parsing import Outcome, Value, batch_of, outcomes_of, parser_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Never a block at once."""

    def _fast(self, values: Any) -> None:
        del values


class OnlyBlocks(JsonDecoder):
    """Never row by row."""

    def _slow(self, values: Any) -> Any:
        raise AssertionError(values)


def in_rows(values: Sequence[Value]) -> tuple[list[Outcome], dict[str, str]]:
    parser = parser_of("json", **TYPES)
    parser._decoder = OnlyRows(parser._settings.columns)
    parsed = parser.parse(batch_of(values))
    return outcomes_of(parsed, len(values)), parsed.new_fields


def columns(outcome: Outcome) -> dict[str, Any]:
    assert outcome[0] == "good", outcome
    return {name: value for name, value in outcome[1].items() if value is not None}
