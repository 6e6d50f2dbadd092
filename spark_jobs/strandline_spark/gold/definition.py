"""The columns of a gold step's result, which are checked before a batch is read."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import OptionError
from strandline_spark.gold.identity import identity_of
from strandline_spark.gold.query import check_statement
from strandline_spark.parsing.settings import NOT_IN_NAMES
from strandline_spark.silver.names import WINDOW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from strandline_spark.pipeline.steps import GoldStep

_PLAIN: Final = frozenset(
    (
        *("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"),
        *("long", "integer", "short", "byte", "float", "double"),
    )
)
"""Types by their names in a Delta schema; `decimal(p,s)` is added to them."""
_DEFINITIONS: Final[dict[tuple[GoldStep, str], Definition]] = {}
"""The definitions that this process has checked, by step and silver's schema."""
_DEFINITIONS_MAX: Final = 64
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Definition:
    """The columns and the identity of a step over silver's columns."""

    columns: StructType
    """Columns of the step's result."""
    identity: str
    """The identity that a commit keeps."""


def definition_of(spark: SparkSession, step: GoldStep, silver: StructType) -> Definition:
    """Checks the step and returns its definition. Raises OptionError like `check_step`.

    A check costs hundreds of calls to the JVM. So a step that passed is not checked again until the
    step or silver's columns change.
    """
    key = (step, silver.json())
    with _LOCK:
        found = _DEFINITIONS.get(key)
    if found is None:
        found = Definition(check_step(spark, step, silver), identity_of(spark, step, silver))
        with _LOCK:
            _DEFINITIONS[key] = found
            while len(_DEFINITIONS) > _DEFINITIONS_MAX:
                del _DEFINITIONS[next(iter(_DEFINITIONS))]
    return found


def check_step(spark: SparkSession, step: GoldStep, silver: StructType) -> StructType:
    """Returns the columns of the step's result over rows of silver.

    Raises OptionError, with the step and the line, for a statement that does not compile or whose
    result no table can hold.
    """
    taken = [name for name in silver.names if name.lower() in WINDOW_COLUMNS]
    if taken:
        raise OptionError(
            f"[[gold]] {step.name}: silver has a column {taken[0]}, and a step adds one of that"
            " name; give the column another name in [silver.columns]"
        )
    missing = [name for name in step.session_key if name not in silver.names]
    if missing:
        raise OptionError(
            f"[[gold]] {step.name}, key session_key: silver has no column {missing[0]}; it has"
            f" {', '.join(silver.names)}"
        )
    if step.zone is not None:
        _check_zone(spark, step.name, step.zone)
    result = check_statement(
        spark,
        silver,
        step.sql,
        step=step.name,
        line=step.line,
        # Two days of one zone can begin at one time: where a whole day is left out.
        sessions=step.session is not None or step.zone is not None,
    )
    where = f"[[gold]] {step.name}, key sql, line {step.line}: "
    seen: set[str] = set()
    for name in result.names:
        if name.lower() in seen:
            raise OptionError(f"{where}two columns of the result are named {name}; rename one")
        seen.add(name.lower())
        if NOT_IN_NAMES & set(name):
            raise OptionError(
                f"{where}a table cannot have a column named {name!r}; give it a name with AS"
            )
    for column in delta_columns(result, where)["fields"]:
        if column["name"] in WINDOW_COLUMNS and column["type"] != "timestamp":
            raise OptionError(
                f"{where}{column['name']} is of type {column['type']}, so it does not show which"
                " window a row is of; select it as it is in silver"
            )
    return result


def _check_zone(spark: SparkSession, step: str, zone: str) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    context: Any = spark.sparkContext
    try:
        context._jvm.java.time.ZoneId.of(zone)
    except Py4JJavaError as why:
        raise OptionError(
            f"[[gold]] {step}, zone = {zone!r}: Java's time zone database does not have it; give a"
            " name such as 'Europe/Berlin'"
        ) from why


def delta_columns(columns: StructType, where: str = "") -> dict[str, Any]:
    """Returns the columns in the form of a Delta schema, all of them nullable. Raises OptionError
    for a type that Delta does not have.
    """
    fields = []
    for one in columns.jsonValue()["fields"]:
        kind = _delta_type(one["type"], one["name"], where)
        fields.append({"name": one["name"], "type": kind, "nullable": True, "metadata": {}})
    return {"type": "struct", "fields": fields}


def _delta_type(kind: Any, name: str, where: str) -> Any:
    if isinstance(kind, str) and (kind in _PLAIN or kind.startswith("decimal(")):
        return kind
    shape = kind["type"] if isinstance(kind, dict) else None
    if shape == "array":
        element = _delta_type(kind["elementType"], name, where)
        return {"type": "array", "elementType": element, "containsNull": True}
    if shape == "map":
        key = _delta_type(kind["keyType"], name, where)
        value = _delta_type(kind["valueType"], name, where)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if shape == "struct":
        fields = [
            {
                "name": one["name"],
                "type": _delta_type(one["type"], name, where),
                "nullable": True,
                "metadata": {},
            }
            for one in kind["fields"]
        ]
        return {"type": "struct", "fields": fields}
    shown = "null" if kind == "void" else kind if isinstance(kind, str) else shape
    raise OptionError(
        f"{where}column {name} is of type {shown}, which a Delta table cannot hold; cast it to"
        " another"
    )
