"""Dates and times in a format of strptime, in columns.

A text means what Python's strptime reads in the C locale, whatever locale and zone the machine has.
Arrow's reader takes the 31st of February for the 3rd of March. Texts in which each part has its
full width are read column by column, the others one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import numpy as np

from strandline_spark.errors import OptionError
from strandline_spark.parsing.decoded import bounds, data_of
from strandline_spark.parsing.time_directives import Directives, FormatProblem

DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WIDTHS: Final = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "f": 6, "b": 3, "z": 5}
_PARTS: Final = re.compile(r"%(.)|([^%]+)", re.DOTALL)
_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"
_MONTH_CODES: Final = {int.from_bytes(_MONTHS[3 * n - 3 : 3 * n].encode()): n for n in range(1, 13)}


@dataclass(frozen=True, slots=True)
class Times:
    """The times of texts: `known` marks those that were read; the others have no meaning here."""

    known: Any
    days: Any
    """Days as written in the text, since 1970."""
    times_us: Any
    """Microseconds in UTC, since 1970."""


def check_format(name: str, kind: str, form: str, zone: str | None = None) -> None:
    """Raises OptionError unless the format gives a whole date, and hours that are no half day."""
    said = f"[silver.columns] {name}: format {form!r}"
    try:
        directives = Directives(form)
    except FormatProblem as why:
        raise OptionError(
            f"{said} is none that strptime reads ({why}): give one of Python's, for instance"
            " '%Y-%m-%d %H:%M:%S', or none for ISO 8601"
        ) from why
    if not directives.gives_date:
        raise OptionError(f"{said} does not give year, month and day: add %Y, %m and %d")
    if directives.gives_half_days:
        raise OptionError(f"{said} has %I without %p: add %p, or use %H")
    if kind == "date" and "z" in directives.names:
        raise OptionError(f"{said} has a time zone, and a date has none: make it a timestamp")
    if zone is not None and directives.names & {"z", "Z"}:
        raise OptionError(
            f"{said} gives a zone, and zone = {zone!r} is for texts without one: leave it out"
        )


class TimeFormat:
    """The reader of texts in one format, which `check_format` has accepted."""

    def __init__(self, form: str) -> None:
        self._directives = Directives(form)
        self._parts = _parts(form)

    def one(self, text: str) -> tuple[date, int]:
        """Returns the date as written, and the moment. Raises ValueError."""
        written, ahead = self._directives.read(text)
        return written.date(), (written - _EPOCH - ahead) // timedelta(microseconds=1)

    def all(self, texts: Any) -> Times:
        """Reads `texts`, which have no null."""
        size = len(texts)
        all_days, all_times = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        if self._parts is None:
            return Times(
                np.zeros(size, dtype=bool), np.zeros(size, np.int64), np.zeros(size, np.int64)
            )
        width = sum(length for _, length in self._parts)
        ends = bounds(texts)
        known = np.diff(ends) == width
        starts = (ends[:-1] - ends[0])[known].astype(np.int64)
        data = np.frombuffer(data_of(texts), dtype=np.uint8)
        table = data[starts[:, None] + np.arange(width)].astype(np.int64)
        right, days, times_us = _columns(self._parts, table)
        all_days[known], all_times[known] = days, times_us
        known[known] = right
        return Times(known, all_days, all_times)


def _parts(form: str) -> list[tuple[str, int]] | None:
    """Returns directives and literals, each with its width in bytes; None if one has no fixed
    width.
    """
    if not form.isascii():
        return None
    found: list[tuple[str, int]] = []
    for directive, literal in _PARTS.findall(form):
        if directive == "":
            found.append((literal, len(literal)))
        elif directive == "%":
            found.append(("%", 1))
        elif directive in _WIDTHS:
            found.append(("%" + directive, _WIDTHS[directive]))
        else:
            return None
    return found


def _columns(parts: list[tuple[str, int]], table: Any) -> tuple[Any, Any, Any]:
    """Returns which rows of bytes are valid, their days, and their moments."""
    size = len(table)
    right = np.ones(size, dtype=bool)
    seen: dict[str, Any] = {}
    at = 0
    for part, width in parts:
        cells = table[:, at : at + width]
        at += width
        if part == "%b":
            letters = cells | 0x20
            codes = letters[:, 0] << 16 | letters[:, 1] << 8 | letters[:, 2]
            seen["m"] = sum(np.where(codes == code, n, 0) for code, n in _MONTH_CODES.items())
        elif part == "%z":
            right &= (cells[:, 0] == ord("+")) | (cells[:, 0] == ord("-"))
            hours, minutes = _number(cells[:, 1:3], right), _number(cells[:, 3:5], right)
            right &= (hours < 24) & (minutes < 60)
            seen["z"] = (hours * 60 + minutes) * np.where(cells[:, 0] == ord("-"), -1, 1)
        elif part[0] == "%" and part != "%":
            seen[part[1]] = _number(cells, right)
        else:
            right &= (cells == np.frombuffer(part.encode(), dtype=np.uint8)).all(axis=1)
    zero = np.zeros(size, dtype=np.int64)
    year, month, day = (seen.get(name, zero) for name in "Ymd")
    hour, minute, second, fraction, zone = (seen.get(name, zero) for name in "HMSfz")
    right &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    right &= (hour < 24) & (minute < 60) & (second < 60)
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    first = months.astype("M8[D]").astype(np.int64)
    right &= day <= (months + 1).astype("M8[D]").astype(np.int64) - first
    days = first + day - 1
    seconds = ((hour * 60 + minute - zone) * 60 + second) * 1_000_000 + fraction
    return right, days, days * DAY_US + seconds


def _number(cells: Any, right: Any) -> Any:
    """Returns digits as numbers; marks rows with other characters as not valid."""
    digits = cells - ord("0")
    right &= ((digits >= 0) & (digits <= 9)).all(axis=1)
    return digits @ (10 ** np.arange(cells.shape[1] - 1, -1, -1, dtype=np.int64))
