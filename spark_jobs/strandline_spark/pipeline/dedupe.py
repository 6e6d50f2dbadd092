"""The check of the key `dedupe` of a silver table."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.errors import OptionError
from strandline_spark.pipeline.durations import duration_us

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ParseSettings
    from strandline_spark.pipeline.keys import DedupeKeys

_OF_RECORD: Final = ("key", "timestamp", "event_time")
"""Silver's own columns that may be part of a key."""


def with_dedupe(settings: ParseSettings, given: DedupeKeys | None) -> ParseSettings:
    """Returns the settings with those of duplicates. Raises OptionError."""
    if given is None:
        return settings
    where = "[silver] dedupe"
    if not given.key or len(set(given.key)) < len(given.key):
        raise OptionError(f"{where}, key = {given.key}: name one or more columns, each once")
    if settings.explode is not None:
        raise OptionError(
            f"{where} is for rows that are records, and with explode = {settings.explode!r} they"
            " are elements: leave one of the two out"
        )
    for name in given.key:
        _check_column(f"{where}, key = {name!r}", name, settings)
    within = duration_us(f"{where}, within", given.within)
    return replace(settings, dedupe_key=tuple(given.key), dedupe_within=within)


def _check_column(where: str, name: str, settings: ParseSettings) -> None:
    if name in _OF_RECORD:
        return
    kind = settings.columns.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, [*settings.columns, *_OF_RECORD], 1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise OptionError(
            f"{where} is no column{meant}: name one of [silver.columns], or of"
            f" {', '.join(_OF_RECORD)}"
        )
    if kind.is_nested:
        raise OptionError(
            f"{where}: a column of type {kind.name} is no key; name one with one of its parts"
        )
    if pa.types.is_floating(kind.arrow):
        raise OptionError(
            f"{where}: a double is no key, because equal amounts may differ in their last digit;"
            " give the column another type in [silver.columns]"
        )
