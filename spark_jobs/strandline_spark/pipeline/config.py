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
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from strandline_spark.errors import OptionError
from strandline_spark.parsing.checks import check_settings, column_type
from strandline_spark.parsing.settings import RECORD_TIME, ParseSettings
from strandline_spark.parsing.zones import Zone
from strandline_spark.pipeline.explained import explained, located
from strandline_spark.pipeline.keys import ColumnKeys, FileKeys, GoldKeys, SilverKeys, StateKeys
from strandline_spark.pipeline.lines import Lines
from strandline_spark.pipeline.steps import GoldStep, StateStep, checked_state
from strandline_spark.silver.names import objection
from strandline_spark.source.local_files import has_scheme, not_of_a_path, not_of_a_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from strandline_spark.parsing.settings import ColumnType

_Keys = TypeVar("_Keys", GoldKeys, StateKeys)
_Step = TypeVar("_Step", GoldStep, StateStep)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DURATION: Final = re.compile(r"(\d{1,9}) *(second|minute|hour|day|week)s?")
_DAY_US: Final = 86_400 * 10**6
_UNITS_US: Final = {
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": _DAY_US,
    "week": 7 * _DAY_US,
}
_DURATION_MAX_US: Final = 36_500 * _DAY_US
"""A hundred years, so that sums with event times stay below 64 bits."""
_WINDOWS_MAX: Final = 1_000_000
"""Limit of hopping windows for a row."""
_DEADLINE_SECONDS_MAX: Final = 86_400
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d+)?) *%")
_FORMAT_KEYS: Final = {
    "pattern": ("regex",),
    "avro_schema": ("avro",),
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
    """A checked pipeline.toml; folders are absolute."""

    file: str
    name: str
    topics: tuple[str, ...]
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
    state: tuple[StateStep, ...] = ()

    @property
    def tables(self) -> tuple[tuple[str, str], ...]:
        """Key and folder of each table, in the order of their commits."""
        own = (("bronze", self.bronze), ("silver", self.silver), ("quarantine", self.quarantine))
        gold = tuple((f"gold {step.name}", step.table) for step in self.gold)
        return own + gold + tuple((f"state {step.name}", step.table) for step in self.state)


def load_pipeline(path: str) -> Pipeline:
    """Reads and checks the file. Raises OptionError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as why:
        raise OptionError(
            f"{path} does not read ({why}): name a pipeline.toml; `strandline-spark example"
            " access` prints one"
        ) from why
    return parse_pipeline(text, os.path.abspath(path))


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
        raise OptionError(f"{path}: {located(str(why), lines, names)}") from why.__cause__


class _Checker:
    def __init__(self, keys: FileKeys, lines: Lines, folder: str) -> None:
        self._keys = keys
        self._lines = lines
        self._root = os.path.join(folder, keys.pipeline.directory)
        self._folder = folder

    def pipeline(self, path: str) -> Pipeline:
        top, silver = self._keys.pipeline, self._keys.silver
        _check_name("[pipeline] name", top.name)
        if not top.topics or len(set(top.topics)) < len(top.topics) or "" in top.topics:
            raise OptionError(f"[pipeline] topics = {top.topics}: name one or more, each once")
        _check_folder("[pipeline] directory", top.directory)
        at = self._placed
        silver_path = at("[silver] table", silver.table, "silver")
        beside = os.path.join(os.path.dirname(silver_path), "quarantine")
        pipeline = Pipeline(
            file=path,
            name=top.name,
            topics=tuple(top.topics),
            checkpoint=at("[pipeline] checkpoint", top.checkpoint, "_checkpoint"),
            start=top.start,
            bronze=at("[bronze] table", self._keys.bronze.table, "bronze"),
            silver=silver_path,
            quarantine=at("[silver] quarantine", silver.quarantine, beside),
            record_losses=self._keys.bronze.on_loss == "record",
            max_offsets_per_trigger=self._keys.bronze.max_offsets_per_trigger,
            parse=self._parse_settings(silver),
            adds_columns=silver.on_new_field == "add",
            limit=limit_of(silver.quarantine_limit),
            gold=tuple(self._steps("gold", self._keys.gold, self._gold_step)),
            state=tuple(self._steps("state", self._keys.state, self._state_step)),
        )
        _check_folders(pipeline)
        return pipeline

    def _placed(self, where: str, given: str | None, default: str) -> str:
        """Returns an absolute folder: `default` is below the pipeline's directory, `given` below
        the file's.
        """
        if given is None:
            path = os.path.normpath(os.path.join(self._root, default))
        else:
            _check_folder(where, given)
            path = os.path.normpath(os.path.join(self._folder, given))
        found = not_of_a_path(path) if where.endswith("checkpoint") else not_of_a_table(path)
        if found is not None:
            raise OptionError(
                f"{where} is the folder {path!r}: there can be no {found!r} in its path; rename the"
                " folder that has it in its name, or name another"
            )
        return path

    def _parse_settings(self, silver: SilverKeys) -> ParseSettings:
        for key, formats in _FORMAT_KEYS.items():
            if getattr(silver, key) not in (None, []) and silver.format not in formats:
                raise OptionError(
                    f"[silver] {key} is for the format {' and '.join(formats)}, and format ="
                    f" {silver.format!r}: leave it out"
                )
        for key in ("pattern", "avro_schema"):
            if getattr(silver, key) is None and silver.format in _FORMAT_KEYS[key]:
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
            columns=_columns(silver.columns),
            event_time=silver.event_time,
            pattern=silver.pattern,
            avro_schema=self._avro_schema(silver.avro_schema),
            delimiter="," if silver.delimiter is None else silver.delimiter,
            quote='"' if silver.quote is None else silver.quote,
            null_values=tuple(silver.null_values),
            ignores_new_fields=silver.on_new_field == "ignore",
            max_ahead=_max_ahead(silver.max_ahead),
            on_crash=silver.on_crash,
            deadline_seconds=_deadline(silver.parse_deadline),
        )
        if silver.event_time != RECORD_TIME and silver.event_time not in settings.columns:
            raise OptionError(
                f"[silver] event_time = {silver.event_time!r} is no column; name one of"
                f" [silver.columns], or {RECORD_TIME!r} for the record's own"
            )
        check_settings(settings)
        return settings

    def _avro_schema(self, file: str | None) -> str | None:
        if file is None:
            return None
        path = os.path.join(self._folder, file)
        try:
            with open(path, encoding="utf-8") as schema:
                return schema.read()
        except (OSError, UnicodeDecodeError) as why:
            raise OptionError(
                f"[silver] avro_schema = {file!r} does not read ({why}): name the file of the"
                " writer's schema"
            ) from why

    def _steps(
        self, section: str, given: Sequence[_Keys], checked: Callable[[int, _Keys], _Step]
    ) -> Iterator[_Step]:
        seen: list[str] = []
        for number, step in enumerate(given):
            try:
                _check_name(f"[[{section}]] {number + 1}, name", step.name)
                if step.name in seen:
                    raise OptionError(
                        f"[[{section}]] {step.name}, name: two steps have this name; give each its"
                        " own"
                    )
                seen.append(step.name)
                yield checked(number, step)
            except OptionError as why:
                said = located(str(why), self._lines, {section: seen}, step=number)
                raise OptionError(said) from why

    def _gold_step(self, number: int, step: GoldKeys) -> GoldStep:
        line = self._lines.of_text(("gold", number, "sql"))
        table = self._placed(f"[[gold]] {step.name}, table", step.table, f"gold/{step.name}")
        return checked_step(step, table, line)

    def _state_step(self, number: int, step: StateKeys) -> StateStep:
        table = self._placed(f"[[state]] {step.name}, table", step.table, f"state/{step.name}")
        return checked_state(step, table)


def checked_step(step: GoldKeys, table: str, line: int) -> GoldStep:
    where = f"[[gold]] {step.name}"
    if (step.window is None) == (step.session is None):
        raise OptionError(f"{where}: give either window (and slide) or session (and session_key)")
    if step.slide is not None and step.window is None:
        raise OptionError(f"{where}: slide is for windows, and a session has none; leave it out")
    if (step.session is None) != (not step.session_key):
        raise OptionError(f"{where}: session and session_key belong together; give both or neither")
    window, slide, session = (
        None if text is None else duration_us(f"{where}, {key}", text)
        for key, text in (("window", step.window), ("slide", step.slide), ("session", step.session))
    )
    if window is not None and slide is not None and slide > window:
        raise OptionError(
            f"{where}, slide = {step.slide!r} is longer than window = {step.window!r}: rows would"
            " fall between windows"
        )
    if window is not None and slide is not None and window > _WINDOWS_MAX * slide:
        raise OptionError(
            f"{where}, slide = {step.slide!r}: each row would be in {window // slide:,} windows of"
            f" {step.window!r}; give a slide that makes them {_WINDOWS_MAX:,} at the most"
        )
    offset = 0
    if step.offset is not None:
        offset = duration_us(f"{where}, offset", step.offset, least=0)
    _check_place(where, step, window, slide, offset)
    if step.sql.strip() == "":
        raise OptionError(f"{where}, sql: it is empty; give a SELECT over the view silver")
    return GoldStep(
        name=step.name,
        table=table,
        sql=step.sql,
        line=line,
        watermark=duration_us(f"{where}, watermark", step.watermark, least=0),
        window=window,
        slide=slide,
        offset=offset,
        zone=step.zone,
        session=session,
        session_key=tuple(step.session_key),
    )


def _check_place(
    where: str, step: GoldKeys, window: int | None, slide: int | None, offset: int
) -> None:
    if window is None:
        for key, value in (("zone", step.zone), ("offset", step.offset)):
            if value is not None:
                raise OptionError(
                    f"{where}, {key} = {value!r}: it places windows, and a session has none; leave"
                    " it out"
                )
        return
    if offset >= (slide or window):
        raise OptionError(
            f"{where}, offset = {step.offset!r}: a window begins every"
            f" {step.slide or step.window!r}; give less than that"
        )
    if step.zone is None:
        return
    try:
        Zone(step.zone)
    except OptionError as why:
        raise OptionError(f"{where}, {why}") from why
    for key, text, length in (("window", step.window, window), ("slide", step.slide, slide)):
        if length is not None and length % _DAY_US != 0:
            raise OptionError(
                f"{where}, {key} = {text!r}: with a zone it has to be whole days or weeks; for"
                " hours that begin at another minute leave out zone and give offset"
            )


def duration_us(where: str, text: str, *, least: int = 1) -> int:
    """Returns `5 minutes` in microseconds. Raises OptionError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or int(found[1]) < least:
        raise OptionError(
            f"{where} = {text!r}: give a whole number and second, minute, hour, day or week, as"
            " '5 minutes'"
        )
    micros = int(found[1]) * _UNITS_US[found[2]]
    if micros > _DURATION_MAX_US:
        raise OptionError(f"{where} = {text!r}: give 36500 days at the most")
    return micros


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
                f"{where}: {wrong}; choose another name, of json and avro with field = {name!r} if"
                " that is what values call it"
            )
        one = ColumnKeys(type=kind) if isinstance(kind, str) else kind
        try:
            of_type = column_type(one.type, one.format)
            columns[name] = replace(
                of_type,
                field=one.field,
                zone=one.zone,
                trim=one.trim,
                null_values=tuple(one.null_values),
                required=one.required,
                default=_default(where, of_type, one.default),
            )
        except OptionError as why:
            raise OptionError(f"{where}: {why}") from why
    return columns


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


def _check_name(where: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise OptionError(f"{where} = {name!r}: give letters, digits, - and _ alone")


def _check_folder(where: str, given: str) -> None:
    if has_scheme(given) or "://" in given:
        raise OptionError(
            f"{where} = {given!r}: tables and checkpoints lie in folders of this machine"
        )


def _check_folders(pipeline: Pipeline) -> None:
    """Raises OptionError for two tables in one folder, or one inside another: each would contain
    the other's files.
    """
    folders = {
        "[pipeline] checkpoint": pipeline.checkpoint,
        "[bronze] table": pipeline.bronze,
        "[silver] table": pipeline.silver,
        "[silver] quarantine": pipeline.quarantine,
        **{f"[[gold]] {step.name}, table": step.table for step in pipeline.gold},
        **{f"[[state]] {step.name}, table": step.table for step in pipeline.state},
    }
    for (other, there), (where, path) in itertools.combinations(folders.items(), 2):
        if os.path.commonpath([path, there]) in (path, there):
            raise OptionError(
                f"{where}: its folder {path} and that of {other}, {there}, are one, or one is in"
                " the other; give each a folder of its own"
            )
