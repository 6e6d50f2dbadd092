"""The definition of a state step, checked against the columns of silver, and its identity."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import QueryBuilder

from strandline_spark.errors import OptionError, first_line
from strandline_spark.gold.identity import words
from strandline_spark.silver.names import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable

    from strandline_spark.gold.silver import Silver
    from strandline_spark.pipeline.steps import StateStep

RECORD_ORDER: Final = "offset"
"""Word in place of a list of columns: the offset within the partition."""
_CHANGING: Final = frozenset(
    (
        *("current_date", "current_time", "current_timestamp", "localtimestamp", "now", "rand"),
        *("random", "today", "uuid"),
    )
)
"""Functions that give another result in the next run."""
_DIALECT: Final = {
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.dialect": "databricks",
}
"""Names keep their capitals, and backticks quote them as in Spark SQL."""
_ADVICE: Final = re.compile(r"\s*(Column names are case sensitive|Valid fields are).*", re.DOTALL)


def query(table: DeltaTable) -> QueryBuilder:
    """Returns a builder of SQL queries over the view `silver`."""
    return QueryBuilder(_DIALECT).register("silver", table)


def check_step(step: StateStep, silver: Silver) -> None:
    """Raises OptionError, with the step, for a key, an order or an expression that silver's columns
    do not allow.
    """
    schema: Any = pa.schema(silver.state.schema)
    for name in schema.names:
        if "`" in name:
            raise OptionError(
                f"[[state]] {step.name}: silver has a column named {name!r}, and MERGE cannot name"
                " one with a backtick; give the field a column of another name in [silver.columns]"
            )
    for key, columns in (("key", step.key), ("order", step.order)):
        for name in columns:
            _check_column(f"[[state]] {step.name}, {key}", key, name, schema)
    if step.delete_when is not None:
        _check_expression(step, step.delete_when, silver)


def _check_column(where: str, key: str, name: str, schema: Any) -> None:
    if name not in schema.names:
        near = [one for one in schema.names if one.lower() == name.lower()]
        near = near or difflib.get_close_matches(name, schema.names, 1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise OptionError(
            f"{where} = {name!r}: silver has no such column{meant}; it has"
            f" {', '.join(schema.names)}"
        )
    kind = schema.field(name).type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        raise OptionError(f"{where} = {name!r}: a column of type {kind} has no order; name another")
    if key == "key" and pa.types.is_floating(kind):
        raise OptionError(
            f"{where} = {name!r}: a double is no key, because equal amounts may differ in their"
            " last digit; give the column another type in [silver.columns]"
        )


def _check_expression(step: StateStep, expression: str, silver: Silver) -> None:
    where = f"[[state]] {step.name}, delete_when = {expression!r}"
    found = words(expression)
    named = {name.lower() for name in silver.state.columns}
    for word, after in zip(found, [*found[1:], ""], strict=True):
        if word in _CHANGING and (after == "(" or word not in named):
            raise OptionError(
                f"{where}: {word} gives another result in each run; take the time from a column,"
                " such as timestamp"
            )
        if word == "select" or (word == "over" and after == "("):
            raise OptionError(
                f"{where}: the expression is about one row alone; leave {word.upper()} out"
            )
    try:
        with silver.excerpt([]) as table:
            result = pa.table(
                query(table).execute(f"SELECT {as_value(expression)} FROM silver WHERE false")
            )
    except Exception as why:  # delta-rs raises errors other than DeltaError
        said = _ADVICE.sub("", first_line(why).replace("silver.", ""))
        raise OptionError(f"{where}: {said}; silver has {', '.join(silver.state.columns)}") from why
    if result.num_columns != 1 or result.num_rows != 0:
        raise OptionError(f"{where}: give one condition about one row, without aggregates")
    kind = result.schema.field(0).type
    if not pa.types.is_boolean(kind):
        shown = str(kind).removesuffix("_view")
        raise OptionError(
            f"{where}: it is of type {shown}, not boolean; compare it with a value, as op = 'd'"
        )


def as_value(expression: str) -> str:
    """Returns the expression in brackets. A comment at its end takes no bracket along."""
    return f"(\n{expression}\n)"


def identity_of(step: StateStep) -> str:
    """Returns the identity of the step's definition. White space, comments and capitals of
    `delete_when` are no part of it.
    """
    deletes = None if step.delete_when is None else words(step.delete_when)
    parts = [list(step.key), list(step.order), deletes]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def named(columns: Sequence[str]) -> str:
    """Returns the columns for a SELECT."""
    return ", ".join(map(quoted, columns))
