"""The Avro schemas of one table: one for all values, or one for each id of a registry."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import fastavro

from strandline_spark.parsing.avro.columns import (
    LOGICAL,
    AvroColumn,
    SchemaProblem,
    reader_plan,
)
from strandline_spark.parsing.avro.resolution import Resolution, with_values_of_defaults

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ParseSettings

_KINDS: Final = frozenset(
    (
        *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
        *("record", "error", "enum", "fixed", "array", "map"),
    )
)
_INNER: Final = ("items", "values")


@dataclass(frozen=True, slots=True)
class DatumPlan:
    """The schemas and columns of the datums of one writer."""

    writer: Any
    """The plain schema."""
    reader: Any
    """The plain schema to which fastavro resolves; None if it is the writer's."""
    columns: list[AvroColumn]


def datum_plans(settings: ParseSettings) -> dict[int | None, DatumPlan]:
    """Returns the plan for each schema id; None in its place if the ids do not matter. Raises
    SchemaProblem.
    """
    try:
        return _plans(settings)
    except RecursionError as why:
        raise SchemaProblem(None, "is nested too deeply") from why


def _plans(settings: ParseSettings) -> dict[int | None, DatumPlan]:
    if not settings.schemas:
        schema, columns = reader_plan(*_parsed(settings.avro_schema or "", None), settings)
        return {None: DatumPlan(schema, None, columns)}
    parsed = {int(key): _parsed(text, key) for key, text in settings.schemas.items()}
    if settings.avro_schema is None:
        newest = max(parsed)
        reader, named = parsed[newest]
    else:
        newest = None
        reader, named = _parsed(settings.avro_schema, None)
    plans: dict[int | None, DatumPlan] = {}
    for key, (writer, writers_named) in parsed.items():
        if key == newest:
            plain, columns = reader_plan(reader, named, settings)
            plans[key] = DatumPlan(plain, None, columns)
            continue
        resolution = Resolution(writer, writers_named, reader, named)
        why = resolution.problem()
        if why is not None:
            raise SchemaProblem(None, f"does not resolve to the reader's schema: {why}", str(key))
        plain, columns = reader_plan(resolution.reader(), named, settings)
        written, _ = reader_plan(writer, writers_named, replace(settings, columns={}, explode=None))
        try:
            plans[key] = DatumPlan(written, with_values_of_defaults(plain), columns)
        except (ValueError, TypeError, LookupError, AttributeError) as bad:
            said = f"has a default that is no value of its type ({bad})"
            raise SchemaProblem(None, said, None if newest is None else str(newest)) from bad
    return plans


def _parsed(text: str, key: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        return parsed_record(text)
    except SchemaProblem as why:
        raise SchemaProblem(None, str(why), key) from why


def parsed_record(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a record's schema as fastavro has parsed it, and its named types. Raises
    SchemaProblem.
    """
    named: dict[str, Any] = {}
    try:
        schema = fastavro.parse_schema(_with_names(_content(json.loads(text))), named)
    except RecursionError as why:
        raise SchemaProblem(None, "is nested too deeply") from why
    except (ValueError, TypeError, LookupError, fastavro.schema.SchemaParseException) as why:
        raise SchemaProblem(None, f"does not parse ({why})") from why
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise SchemaProblem(None, "is no record")
    return schema, named


def _content(found: Any) -> Any:
    """Returns the schema within a registry's answer, `{"schema": "…"}`, else what was found."""
    if isinstance(found, dict) and "type" not in found and isinstance(found.get("schema"), str):
        return json.loads(found["schema"])
    return found


def _with_names(schema: Any) -> Any:
    """Returns the schema with `{"type": "Name"}` as the name that it stands for, and without a
    `decimal` that cannot be one, which Avro lets count as its base type. fastavro takes neither.
    """
    if isinstance(schema, list):
        return [_with_names(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    of = schema.get("type")
    if isinstance(of, dict | list) or (isinstance(of, str) and of not in _KINDS):
        return _with_names(of)
    out = {key: _with_names(one) if key in _INNER else one for key, one in schema.items()}
    if out.get("logicalType") == "decimal" and not _is_decimal(out):
        del out["logicalType"]
    if isinstance(out.get("fields"), list):
        out["fields"] = [
            {**field, "type": _with_names(field["type"])}
            if isinstance(field, dict) and "type" in field
            else field
            for field in out["fields"]
        ]
    return out


def _is_decimal(schema: dict[str, Any]) -> bool:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema["type"] not in LOGICAL["decimal"] or type(precision) is not int:
        return False
    size = schema.get("size")
    held = precision if size is None else int(math.log10(2) * (8 * size - 1))
    return type(scale) is int and 0 < precision <= held and 0 <= scale <= precision
