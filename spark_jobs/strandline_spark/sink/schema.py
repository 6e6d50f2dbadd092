"""The columns that the sink accepts: those of Spark's Kafka sink, and a timestamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BYTES: Final = ("binary", "string")
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}
"""The accepted types of each column, as Spark writes them."""


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raises OptionError, which names column, type and remedy. `topic` is the option."""
    seen: set[str] = set()
    for field in schema.fields:
        name, kind = field.name, field.dataType.simpleString()
        accepted = COLUMNS.get(name)
        if accepted is None:
            raise OptionError(
                f"column {name!r} ({kind}) is not one that the strandline sink writes: drop it, or"
                f" put it into value; the columns are {', '.join(COLUMNS)}"
            )
        if name in seen:
            raise OptionError(f"column {name!r} is there twice: drop one of them")
        seen.add(name)
        if kind not in accepted:
            raise OptionError(
                f"column {name!r} is {kind}, and the strandline sink takes {' or '.join(accepted)}:"
                " cast it"
            )
    if "value" not in seen:
        raise OptionError(
            "the strandline sink needs a column value (binary or string): for instance"
            " selectExpr('to_json(struct(*)) AS value')"
        )
    if topic is None and "topic" not in seen:
        raise OptionError("where do the rows go? Give the option topic, or a column topic (string)")
