"""The checks of settings before a record is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.errors import OptionError
from strandline_spark.parsing.cleaning import clean_text, default_of
from strandline_spark.parsing.epochs import EPOCHS
from strandline_spark.parsing.framing import ID_MAX
from strandline_spark.parsing.parts.paths import path_of, path_to
from strandline_spark.parsing.parts.type_names import leaves
from strandline_spark.parsing.settings import (
    BINARY,
    HEADER,
    KEY,
    POSITION,
    RECORD_TIME,
    ColumnType,
    of_value,
)
from strandline_spark.parsing.strptime import check_format
from strandline_spark.parsing.texts import BYTES
from strandline_spark.parsing.zones import Zone

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ParseSettings

FORMATS: Final = ("json", "csv", "avro", "protobuf", "regex")
_NAMED_FIELDS: Final = ("json", "avro", "protobuf")
_WITH_FORMAT: Final = ("date", "timestamp")
_EVENT_TIME: Final = "event_time"


def check_settings(settings: ParseSettings) -> None:
    """Raises OptionError, which names key, value and remedy."""
    if settings.format not in FORMATS:
        raise OptionError(f"[silver] format: {settings.format!r} is none of {', '.join(FORMATS)}")
    if not settings.columns:
        raise OptionError("[silver.columns] names no column: give at least one, as name = 'type'")
    for name, kind in settings.columns.items():
        _check_column(name, kind, settings.format)
        _check_default(name, kind)
    _check_fields(settings)
    _check_explode(settings)
    _check_event_time(settings)
    own = replace(settings, columns=of_value(settings.columns))
    if settings.format == "regex":
        _check_pattern(own)
    elif settings.format == "csv":
        _check_csv(own)
    elif settings.format == "avro":
        _check_avro(own)
    elif settings.format == "protobuf":
        _check_protobuf(own)


def _check_column(name: str, kind: ColumnType, form: str) -> None:
    """`form` is the format of the values."""
    if not name.strip() or not name.isprintable():
        raise OptionError(f"[silver.columns] {name!r} is no name: give one that can be printed")
    _check_source(name, kind)
    _check_zone(name, kind)
    _check_parts(name, kind, form)
    if kind.name == "binary":
        _check_bytes(name, kind, form)
        return
    if kind.format is None:
        return
    if kind.name not in _WITH_FORMAT:
        raise OptionError(
            f"[silver.columns] {name}: a {kind.name} has no format, and {kind.format!r} is given:"
            " leave it out, or make the column a date or timestamp"
        )
    if not kind.format.startswith("epoch"):
        check_format(name, kind.name, kind.format, kind.zone)
    elif kind.format not in EPOCHS:
        raise OptionError(
            f"[silver.columns] {name}: format {kind.format!r} is none of {', '.join(EPOCHS)}"
        )
    elif kind.name != "timestamp":
        raise OptionError(
            f"[silver.columns] {name}: format {kind.format!r} is of a time, and the column is a"
            f" {kind.name}: make it a timestamp"
        )


def _check_default(name: str, kind: ColumnType) -> None:
    said = f"[silver.columns] {name}: default {kind.default!r}"
    if kind.default is None:
        return
    if kind.required:
        raise OptionError(f"{said} leaves no null, so required never applies: leave one of the two")
    if clean_text(kind.default, kind) != kind.default:
        raise OptionError(f"{said} means null, or has blanks that trim removes: give another")
    default_of(name, kind)


def _check_source(name: str, kind: ColumnType) -> None:
    source = kind.source
    if (
        source is None
        or source in (KEY, POSITION)
        or (source.startswith(HEADER) and source != HEADER)
    ):
        return
    raise OptionError(
        f"[silver.columns] {name}: from = {source!r} is no part of a record that is decoded:"
        ' give "key", or "header:" and the name of the header'
    )


def _check_parts(name: str, kind: ColumnType, form: str) -> None:
    """Checks a type of other types, and json."""
    of_text = kind.source is not None or form not in _NAMED_FIELDS
    if kind.trim and not of_text and (kind.is_nested or kind.name == "json"):
        raise OptionError(
            f"[silver.columns] {name}: trim is for a text, and the column is a {kind.name}: leave"
            " it out"
        )
    if kind.is_nested and (of_text or form not in BINARY) and "binary" in leaves(kind):
        raise OptionError(
            f"[silver.columns] {name}: the texts of a binary within {kind.name} have no format:"
            " make it a string, or give it a column of its own"
        )


def _check_bytes(name: str, kind: ColumnType, form: str) -> None:
    said = f"[silver.columns] {name}: a binary column"
    if kind.source is not None:
        if kind.format not in (None, *BYTES):
            raise OptionError(
                f"{said} of {kind.source} has the format {kind.format!r}, which is none of"
                f" {', '.join(BYTES)}: leave it out for the bytes as they are"
            )
        return
    if form in BINARY and kind.format is not None:
        raise OptionError(
            f"{said} of {form} has no format, and {kind.format!r} is given: leave it out"
        )
    if form not in BINARY and kind.format not in BYTES:
        is_now = "none is given" if kind.format is None else f"not {kind.format!r}"
        raise OptionError(
            f"{said} of {form} needs the format of its texts, {' or '.join(BYTES)}; {is_now}"
        )


def _check_zone(name: str, kind: ColumnType) -> None:
    if kind.zone is None:
        return
    said = f"[silver.columns] {name}: zone {kind.zone!r}"
    if kind.name != "timestamp":
        raise OptionError(
            f"{said} is for a timestamp, and the column is a {kind.name}: leave it out"
        )
    if kind.format in EPOCHS:
        raise OptionError(f"{said}: {kind.format} counts from 1970 in UTC; leave the zone out")
    try:
        Zone(kind.zone)
    except OptionError as why:
        raise OptionError(f"[silver.columns] {name}: {why}") from why


def _check_fields(settings: ParseSettings) -> None:
    readers: dict[tuple[Any, ...], str] = {}
    for name, kind in settings.columns.items():
        of_value = kind.source is None
        if kind.field is not None and of_value and settings.format not in _NAMED_FIELDS:
            raise OptionError(
                f"[silver.columns] {name}: field is for the formats {', '.join(_NAMED_FIELDS)}:"
                " leave it out"
            )
        try:
            path = path_to(name) if kind.field is None else path_of(kind.field)
        except OptionError as why:
            raise OptionError(f"[silver.columns] {name}: {why}") from why
        if (kind.field is None and not of_value) or kind.is_nested or kind.name == "json":
            continue
        place = (kind.source, path.steps, path.name)
        if place in readers:
            of = path.plain if path.plain is not None else path.text
            raise OptionError(
                f"[silver.columns] {name}: the field {of!r} is read into {readers[place]} already:"
                " take one of the two out"
            )
        readers[place] = name


def _check_explode(settings: ParseSettings) -> None:
    placed = [name for name, kind in settings.columns.items() if kind.source == POSITION]
    if settings.explode is None:
        if placed:
            raise OptionError(
                f'[silver.columns] {placed[0]}: from = "{POSITION}" is the place of an exploded'
                " element: give [silver] explode, or leave the column out"
            )
        return
    said = f"[silver] explode = {settings.explode!r}"
    if settings.format not in _NAMED_FIELDS:
        raise OptionError(f"{said} is for the formats {', '.join(_NAMED_FIELDS)}: leave it out")
    try:
        path = path_of(settings.explode)
    except OptionError as why:
        raise OptionError(f"[silver] explode: {why}") from why
    if not path.steps:
        raise OptionError(f"{said} is the whole value, and that is an object: name an array in it")
    if len(placed) != 1:
        raise OptionError(
            f'{said} needs one column for the place of an element, with from = "{POSITION}", not'
            f" {len(placed)}"
        )
    kind = settings.columns[placed[0]]
    if kind.name not in ("int", "bigint") or kind.field is not None:
        raise OptionError(
            f'[silver.columns] {placed[0]}: from = "{POSITION}" is a whole number: make it an int,'
            " without field"
        )


def _check_event_time(settings: ParseSettings) -> None:
    name, columns = settings.event_time, settings.columns
    timed = [each for each, kind in columns.items() if kind.name in _WITH_FORMAT]
    remedy = f"give {', '.join([*timed, RECORD_TIME])}"
    if name != RECORD_TIME and name not in columns:
        raise OptionError(f"[silver] event_time: {name!r} is no column: {remedy}")
    if name != RECORD_TIME and name not in timed:
        kind = columns[name].name
        raise OptionError(
            f"[silver] event_time: {name!r} is a {kind}, neither timestamp nor date: {remedy}"
        )
    own = columns.get(_EVENT_TIME)
    if own is not None and (name != _EVENT_TIME or own.name != "timestamp"):
        raise OptionError(
            f"[silver.columns] {_EVENT_TIME}: silver has a column of this name, so it must be a"
            f" timestamp, and [silver] event_time = {_EVENT_TIME!r}; or leave it out"
        )


def _check_pattern(settings: ParseSettings) -> None:
    from strandline_spark.parsing.regex_groups import whole

    if not settings.pattern:
        raise OptionError("[silver] pattern: format 'regex' needs one, with a named group a column")
    said = f"[silver] pattern: {settings.pattern!r}"
    try:
        pc.extract_regex(pa.array([""]), settings.pattern)
        found = pc.extract_regex(pa.array([""]), whole(settings.pattern))
    except pa.ArrowInvalid as why:
        raise OptionError(
            f"{said} is not a pattern of RE2 ({why}): correct it; groups that are no columns are"
            " written (?:…)"
        ) from why
    groups = [field.name for field in found.type]
    missing = [name for name in settings.columns if name not in groups]
    if missing:
        raise OptionError(
            f"{said} has no group for the column {missing[0]}: write (?P<{missing[0]}>…), or take"
            " it from [silver.columns]"
        )
    twice = next((name for name in groups if groups.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"{said} has the group {twice} twice: rename one of them")


def _check_csv(settings: ParseSettings) -> None:
    if not settings.columns:
        raise OptionError("[silver.columns] has no column of the value: a line of csv has one")
    for key, value in (("delimiter", settings.delimiter), ("quote", settings.quote)):
        none = value == "" and key == "quote"
        wrong = len(value) != 1 or not value.isascii() or value.isalnum() or value in "\r\n\0"
        if wrong and not none:
            raise OptionError(
                f"[silver] {key}: {value!r} is not one ASCII character that is neither letter,"
                " digit nor line end"
            )
    if settings.delimiter == settings.quote:
        raise OptionError(
            f"[silver] quote: {settings.quote!r} is the delimiter too: give another, or '' for none"
        )


def _check_avro(settings: ParseSettings) -> None:
    from strandline_spark.parsing.avro.columns import EXPLODE, SchemaProblem
    from strandline_spark.parsing.avro.schemas import datum_plans

    if not settings.avro_schema and not settings.schemas:
        raise OptionError("[silver] avro_schema: format 'avro' needs the writer's schema, as JSON")
    for key in settings.schemas:
        if not key.isdecimal() or str(int(key)) != key or int(key) > ID_MAX:
            raise OptionError(
                f"[silver] schemas: {key!r} is no id of a registry: give a number up to {ID_MAX}"
            )
    try:
        datum_plans(settings)
    except SchemaProblem as why:
        if why.column == EXPLODE:
            raise OptionError(f"{EXPLODE}: {why}") from why
        if why.column is not None:
            raise OptionError(f"[silver.columns] {why.column}: {why}") from why
        if why.key is not None:
            raise OptionError(
                f"[silver] schemas: the schema {why.key} {why}: correct its file, or [silver]"
                " avro_schema, which is the reader's"
            ) from why
        whose = "reader's" if settings.schemas else "writer's"
        raise OptionError(
            f"[silver] avro_schema: {str(settings.avro_schema)[:200]!r} {why}: give the {whose}"
            " record schema, as JSON"
        ) from why


def _check_protobuf(settings: ParseSettings) -> None:
    from strandline_spark.parsing.protobuf.descriptors import DescriptorProblem
    from strandline_spark.parsing.protobuf.places import EXPLODE, message_plan

    for key in ("descriptor", "message"):
        if not getattr(settings, key):
            raise OptionError(f"[silver] {key}: format 'protobuf' needs it")
    try:
        message_plan(settings)
    except DescriptorProblem as why:
        if why.column == EXPLODE:
            raise OptionError(f"{EXPLODE}: {why}") from why
        where = f"[silver] {why.key}" if why.column is None else f"[silver.columns] {why.column}"
        raise OptionError(f"{where}: {why}") from why
