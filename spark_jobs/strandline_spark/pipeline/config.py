"""The reader of pipeline.toml: every mistake is an OptionError that names the key, the line and the
value. A check's message begins with the place, `[section] key` or `[[gold]] step, key`. This module
adds the line.
"""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from strandline_spark.errors import OptionError
from strandline_spark.parsing.checks import check_settings
from strandline_spark.parsing.parts.type_names import column_type
from strandline_spark.parsing.settings import POSITION, RECORD_TIME, ParseSettings
from strandline_spark.pipeline.dedupe import with_dedupe
from strandline_spark.pipeline.durations import duration_us
from strandline_spark.pipeline.explained import explained, located, located_in_part
from strandline_spark.pipeline.keys import ColumnKeys, FileKeys, GoldKeys, SilverKeys, StateKeys
from strandline_spark.pipeline.lines import Lines
from strandline_spark.pipeline.parts import check_name, check_parts, part_names, silver_of
from strandline_spark.pipeline.places import CHECKPOINT, Places, beside
from strandline_spark.pipeline.schema_files import schemas_of
from strandline_spark.pipeline.step_checks import check_delays, checked_step
from strandline_spark.pipeline.steps import GoldStep, StateStep, checked_state
from strandline_spark.silver.names import objection
from strandline_spark.stores import options
from strandline_spark.stores.paths import overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from strandline_spark.parsing.settings import ColumnType

_Keys = TypeVar("_Keys", GoldKeys, StateKeys)
_Step = TypeVar("_Step", GoldStep, StateStep)

_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEADLINE_SECONDS_MAX: Final = 86_400
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d+)?) *%")
_FORMAT_KEYS: Final = {
    "pattern": ("regex",),
    "explode": ("json", "avro", "protobuf"),
    "avro_schema": ("avro",),
    "registry": ("avro", "protobuf"),
    "schemas": ("avro",),
    "descriptor": ("protobuf",),
    "message": ("protobuf",),
    "delimiter": ("csv",),
    "quote": ("csv",),
    "null_values": ("csv", "regex"),
}


SHARE_ROWS_MIN: Final = 1_000
"""Least batch for a share: in a smaller one a single record may be a third."""


@dataclass(frozen=True, slots=True)
class QuarantineLimit:
    """The limit beyond which a batch does not go into silver, which then stops."""

    rows: int | None
    share: float | None

    def __str__(self) -> str:
        return f"{100 * self.share:g}%" if self.share is not None else str(self.rows)

    def is_passed(self, bad: int, rows: int) -> bool:
        if self.rows is not None and bad > self.rows:
            return True
        counts = rows >= SHARE_ROWS_MIN or self.share == 0
        return self.share is not None and counts and bad > self.share * rows


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A checked pipeline.toml, seen from one of its silver tables; folders are absolute."""

    file: str
    name: str
    topics: tuple[str, ...]
    """All topics, which bronze takes."""
    checkpoint: str
    start: str
    bronze: str
    silver: str
    quarantine: str
    record_losses: bool
    max_offsets_per_trigger: int | None
    parse: ParseSettings
    adds_columns: bool
    """True if a new field becomes a column; False if silver stops at it."""
    limit: QuarantineLimit
    gold: tuple[GoldStep, ...]
    """The steps over this silver table; of `state` too."""
    state: tuple[StateStep, ...] = ()
    part: str | None = None
    """Name of this silver table, if it has one."""
    own_topics: tuple[str, ...] | None = None
    """Topics of this silver table; None for all that bronze has."""
    storage: tuple[tuple[str, str], ...] = ()
    """Settings of an object store, by their names in the environment."""
    others: tuple[Pipeline, ...] = ()
    """The same pipeline, seen from each of its further silver tables."""

    @property
    def parts(self) -> tuple[Pipeline, ...]:
        """The pipeline, seen from each of its silver tables."""
        return (self, *self.others)

    @property
    def silver_topics(self) -> tuple[str, ...]:
        return self.topics if self.own_topics is None else self.own_topics

    @property
    def silver_step(self) -> str:
        """Name of this silver table among the steps that may fail."""
        return self.key_of("silver")

    @property
    def section(self) -> str:
        """The section of the file that has the rules of this silver table."""
        return "[silver]" if self.part is None else f"[[silver]] {self.part}"

    @property
    def place(self) -> str:
        """The file, and the table in it if there are several."""
        return self.file if self.part is None else f"{self.section} of {self.file}"

    def takes(self, topic: str) -> bool:
        """True if this silver table has the records of the topic."""
        return self.own_topics is None or topic in self.own_topics

    def key_of(self, table: str) -> str:
        return table if self.part is None else f"{table} {self.part}"

    @property
    def every_gold(self) -> tuple[GoldStep, ...]:
        """The gold steps over all silver tables."""
        return tuple(step for one in self.parts for step in one.gold)

    @property
    def every_state(self) -> tuple[StateStep, ...]:
        """The state steps over all silver tables."""
        return tuple(step for one in self.parts for step in one.state)

    @property
    def parsed_tables(self) -> tuple[tuple[str, str], ...]:
        """Key and folder of bronze, and of each silver table and its quarantine."""
        parsed = (
            (one.key_of(key), folder)
            for one in self.parts
            for key, folder in (("silver", one.silver), ("quarantine", one.quarantine))
        )
        return (("bronze", self.bronze), *parsed)

    @property
    def tables(self) -> tuple[tuple[str, str], ...]:
        """Key and folder of each table, in the order of their commits."""
        gold = ((f"gold {step.name}", step.table) for step in self.every_gold)
        state = ((f"state {step.name}", step.table) for step in self.every_state)
        return (*self.parsed_tables, *gold, *state)


def load_pipeline(path: str) -> Pipeline:
    """Reads and checks the file, and makes this process use its settings of an object store. Raises
    OptionError.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as why:
        raise OptionError(
            f"{path} does not read ({why}): name a pipeline.toml; `strandline-spark example"
            " access` prints one"
        ) from why
    pipeline = parse_pipeline(text, os.path.abspath(path))
    options.use(dict(pipeline.storage))
    return pipeline


def parse_pipeline(text: str, path: str) -> Pipeline:
    """Checks the content of the file `path`; relative folders begin at its folder."""
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as why:
        raise OptionError(f"{path} is no TOML: {why}") from why
    lines = Lines(text)
    try:
        keys = msgspec.convert(found, FileKeys)
    except msgspec.ValidationError as why:
        raise OptionError(f"{path}: {explained(str(why), found, lines)}") from why
    names = {"gold": [one.name for one in keys.gold], "state": [one.name for one in keys.state]}
    try:
        return _Checker(keys, lines, os.path.dirname(path)).pipeline(path)
    except OptionError as why:
        place = located(str(why), lines, names, parts=part_names(keys.silver))
        raise OptionError(f"{path}: {place}") from why.__cause__


class _Checker:
    def __init__(self, keys: FileKeys, lines: Lines, folder: str) -> None:
        self._keys = keys
        self._lines = lines
        self._folder = folder
        self._places = Places(folder, keys.pipeline.directory)

    def pipeline(self, path: str) -> Pipeline:
        top, given = self._keys.pipeline, self._keys.silver
        check_name("[pipeline] name", top.name)
        if not top.topics or len(set(top.topics)) < len(top.topics) or "" in top.topics:
            raise OptionError(f"[pipeline] topics = {top.topics}: name one or more, each once")
        tables = given if isinstance(given, list) else [given]
        check_parts(tables, top.topics)
        parsed = [self._located_part(number, silver) for number, silver in enumerate(tables)]
        whole = Pipeline(
            file=path,
            name=top.name,
            topics=tuple(top.topics),
            checkpoint=self._places.of(CHECKPOINT, top.checkpoint, "_checkpoint"),
            start=top.start,
            bronze=self._places.of("[bronze] table", self._keys.bronze.table, "bronze"),
            record_losses=self._keys.bronze.on_loss == "record",
            max_offsets_per_trigger=self._keys.bronze.max_offsets_per_trigger,
            gold=(),
            storage=tuple(options.parsed(self._keys.storage).items()),
            **parsed[0],
        )
        gold = list(self._steps("gold", self._keys.gold, self._gold_step))
        state = list(self._steps("state", self._keys.state, self._state_step))
        topics = {own["part"]: own["own_topics"] or whole.topics for own in parsed}
        for name, step in gold:
            check_delays(step, topics[name])
        parts = [
            replace(
                whole,
                **own,
                gold=tuple(step for name, step in gold if name == own["part"]),
                state=tuple(step for name, step in state if name == own["part"]),
            )
            for own in parsed
        ]
        pipeline = replace(parts[0], others=tuple(parts[1:]))
        _check_folders(pipeline)
        return pipeline

    def _located_part(self, number: int, silver: SilverKeys) -> dict[str, Any]:
        """Returns the same as `_part`, whose errors name the table if there may be several."""
        try:
            return self._part(silver)
        except OptionError as why:
            if not isinstance(self._keys.silver, list):
                raise
            place = located_in_part(str(why), self._lines, number, silver.name)
            raise OptionError(place) from why.__cause__

    def _part(self, silver: SilverKeys) -> dict[str, Any]:
        """Returns what the pipeline has of one silver table, without its gold steps."""
        suffix = "" if silver.name is None else f"_{silver.name}"
        path = self._places.of("[silver] table", silver.table, f"silver{suffix}")
        default = beside(path, f"quarantine{suffix}")
        return {
            "silver": path,
            "quarantine": self._places.of("[silver] quarantine", silver.quarantine, default),
            "parse": self._parse_settings(silver),
            "adds_columns": silver.on_new_field == "add",
            "limit": limit_of(silver.quarantine_limit),
            "part": silver.name,
            "own_topics": tuple(silver.topics) or None,
        }

    def _parse_settings(self, silver: SilverKeys) -> ParseSettings:
        for key, formats in _FORMAT_KEYS.items():
            if getattr(silver, key) not in (None, [], {}) and silver.format not in formats:
                raise OptionError(
                    f"[silver] {key} is for the format {' and '.join(formats)}, and format ="
                    f" {silver.format!r}: leave it out"
                )
        for key in ("pattern", "avro_schema", "descriptor", "message"):
            may_lack = key == "avro_schema" and silver.schemas
            if getattr(silver, key) is None and silver.format in _FORMAT_KEYS[key] and not may_lack:
                raise OptionError(f"[silver] format = {silver.format!r} needs the key {key}")
        if silver.on_new_field != "stop" and silver.format != "json":
            raise OptionError(
                f'[silver] on_new_field = "{silver.on_new_field}" is for the format json: the'
                f" fields of {silver.format} are those of its columns"
            )
        for key in ("delimiter", "quote"):
            given = getattr(silver, key)
            if (
                given is not None
                and len(given.encode()) != 1
                and not (key == "quote" and not given)
            ):
                raise OptionError(f"[silver] {key} = {given!r}: give one ASCII character")
        settings = ParseSettings(
            format=silver.format,
            columns=_with_position(_columns(silver.columns), silver.explode),
            event_time=silver.event_time,
            pattern=silver.pattern,
            **schemas_of(silver, self._folder),
            delimiter="," if silver.delimiter is None else silver.delimiter,
            quote='"' if silver.quote is None else silver.quote,
            null_values=tuple(silver.null_values),
            explode=silver.explode,
            ignores_new_fields=silver.on_new_field == "ignore",
            max_ahead=_max_ahead(silver.max_ahead),
            on_crash=silver.on_crash,
            deadline_seconds=_deadline(silver.parse_deadline),
        )
        settings = with_dedupe(settings, silver.dedupe)
        if silver.event_time != RECORD_TIME and silver.event_time not in settings.columns:
            raise OptionError(
                f"[silver] event_time = {silver.event_time!r} is no column; name one of"
                f" [silver.columns], or {RECORD_TIME!r} for the record's own"
            )
        check_settings(settings)
        return settings

    def _steps(
        self, section: str, given: Sequence[_Keys], checked: Callable[[int, _Keys], _Step]
    ) -> Iterator[tuple[str | None, _Step]]:
        """Yields each step behind the name of its silver table."""
        tables = part_names(self._keys.silver)
        seen: list[str] = []
        for number, step in enumerate(given):
            try:
                check_name(f"[[{section}]] {number + 1}, name", step.name)
                if step.name in seen:
                    raise OptionError(
                        f"[[{section}]] {step.name}, name: two steps have this name; give each its"
                        " own"
                    )
                seen.append(step.name)
                yield (
                    silver_of(f"[[{section}]] {step.name}", step.silver, tables),
                    checked(number, step),
                )
            except OptionError as why:
                said = located(str(why), self._lines, {section: seen}, step=number)
                raise OptionError(said) from why

    def _gold_step(self, number: int, step: GoldKeys) -> GoldStep:
        line = self._lines.of_text(("gold", number, "sql"))
        table = self._places.of(f"[[gold]] {step.name}, table", step.table, f"gold/{step.name}")
        return checked_step(step, table, line)

    def _state_step(self, number: int, step: StateKeys) -> StateStep:
        table = self._places.of(f"[[state]] {step.name}, table", step.table, f"state/{step.name}")
        return checked_state(step, table)


def _deadline(given: str) -> int:
    seconds = duration_us("[silver] parse_deadline", given) // 10**6
    if seconds > _DEADLINE_SECONDS_MAX:
        raise OptionError(f"[silver] parse_deadline = {given!r} is above 1 day: give less")
    return seconds


def _max_ahead(text: str) -> int | None:
    if text.strip() == "unlimited":
        return None
    try:
        return duration_us("[silver] max_ahead", text, least=0)
    except OptionError as why:
        raise OptionError(f"{why}, or 'unlimited'") from why


def limit_of(given: int | str | None) -> QuarantineLimit:
    where = f"[silver] quarantine_limit = {given!r}"
    if given is None:
        return QuarantineLimit(None, None)
    if isinstance(given, int):
        if given < 0:
            raise OptionError(f"{where}: give a count of rows from 0 on, or a share as '1%'")
        return QuarantineLimit(given, None)
    found = _SHARE.fullmatch(given.strip())
    if found is None or float(found[1]) > 100:
        raise OptionError(f"{where}: give a count of rows, or a share from '0%' to '100%'")
    return QuarantineLimit(None, float(found[1]) / 100)


def _columns(given: Mapping[str, str | ColumnKeys]) -> dict[str, ColumnType]:
    if not given:
        raise OptionError("[silver.columns]: name at least one column and its type")
    columns: dict[str, ColumnType] = {}
    for name, kind in given.items():
        where = f"[silver.columns] {name}"
        if not _COLUMN.fullmatch(name):
            raise OptionError(
                f"[silver.columns] {name!r}: a column's name has letters, digits and _ alone"
            )
        if wrong := objection(name, columns):
            raise OptionError(
                f"{where}: {wrong}; choose another name, of json, avro and protobuf with field ="
                f" {name!r} if that is what values call it"
            )
        one = ColumnKeys(type=kind) if isinstance(kind, str) else kind
        try:
            of_type = column_type(one.type, one.format)
            columns[name] = replace(
                of_type,
                field=one.field,
                source=None if one.source == "value" else one.source,
                zone=one.zone,
                trim=one.trim,
                null_values=tuple(one.null_values),
                required=one.required,
                default=_default(where, of_type, one.default),
            )
        except OptionError as why:
            raise OptionError(f"{where}: {why}") from why
    return columns


def _with_position(columns: dict[str, ColumnType], explode: str | None) -> dict[str, ColumnType]:
    """Returns the columns with one for the place of an exploded element."""
    if explode is None or any(kind.source == POSITION for kind in columns.values()):
        return columns
    taken = next((name for name in columns if name.lower() == POSITION), None)
    if taken is not None:
        raise OptionError(
            f"[silver.columns] {taken}: with explode silver has a column {POSITION} for the place"
            f' of an element; choose another name, or give the place one by from = "{POSITION}"'
        )
    return {POSITION: replace(column_type("int"), source=POSITION), **columns}


def _default(where: str, kind: ColumnType, given: str | float | None) -> str | None:
    """Returns the text of a default. A text stands for a value of any type; a number or a boolean
    is one only of its own kind.
    """
    if given is None or isinstance(given, str):
        return given
    of = "boolean" if isinstance(given, bool) else "number"
    is_number = kind.name in ("int", "bigint", "double") or kind.name.startswith("decimal")
    if kind.name != "boolean" if of == "boolean" else not is_number:
        raise OptionError(f"default = {given}: a {of} is no {kind.name}; give a value of that type")
    return str(given).lower()


def _check_folders(pipeline: Pipeline) -> None:
    """Raises OptionError for two tables in one folder, or one inside another: each would contain
    the other's files.
    """
    folders = {
        "[pipeline] checkpoint": pipeline.checkpoint,
        "[bronze] table": pipeline.bronze,
        **{
            f"{where} {key}": folder
            for one in pipeline.parts
            for where in ["[silver]" if one.part is None else f"[[silver]] {one.part},"]
            for key, folder in (("table", one.silver), ("quarantine", one.quarantine))
        },
        **{f"[[gold]] {step.name}, table": step.table for step in pipeline.every_gold},
        **{f"[[state]] {step.name}, table": step.table for step in pipeline.every_state},
    }
    for (other, there), (where, path) in itertools.combinations(folders.items(), 2):
        if overlap(path, there):
            raise OptionError(
                f"{where}: its folder {path} and that of {other}, {there}, are one, or one is in"
                " the other; give each a folder of its own"
            )
