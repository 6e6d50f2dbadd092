"""Formats of strptime, read text by text: the meaning of each directive, and the date and time that
the parts of a text give.

Python's own strptime asks the process for its locale (names of months and days, AM and PM) and its
zone (`%Z`). So a text may mean different things on two machines. These directives mean the same on
every machine: names are English, and the only named zone is UTC, or GMT. Directives that depend on
the locale (`%c`, `%x`, `%X`) are refused. A date that does not exist is refused too: Python's own
takes the 366th day of 2023 for the first of 2024.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

_MONTHS: Final = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]
_DAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SHORT: Final = 3
"""Number of letters of a short name."""
_CENTURY: Final = 69
"""First two-digit year that counts as one of the twentieth century."""
_NOON: Final = 12
_BY_LOCALE: Final = {
    "c": "%a %b %d %H:%M:%S %Y",
    "x": "%m/%d/%y",
    "X": "%H:%M:%S",
}
"""Replacements for the directives that depend on the locale, in the usual English form."""
_TOKENS: Final = re.compile(r"%(.?)|(\s+)|([^%\s]+)", re.DOTALL)


def _any_of(names: list[str]) -> str:
    return "|".join(names)


_PATTERNS: Final = {
    "Y": r"[0-9]{4}",
    "y": r"[0-9][0-9]",
    "G": r"[0-9]{4}",
    "m": r"1[0-2]|0[1-9]|[1-9]",
    "B": _any_of(_MONTHS),
    "b": _any_of([name[:_SHORT] for name in _MONTHS]),
    "d": r"3[01]|[12][0-9]|0[1-9]|[1-9]| [1-9]",
    "j": r"36[0-6]|3[0-5][0-9]|[12][0-9][0-9]|0[1-9][0-9]|00[1-9]|[1-9][0-9]|0[1-9]|[1-9]",
    "U": r"5[0-3]|[0-4][0-9]|[0-9]",
    "W": r"5[0-3]|[0-4][0-9]|[0-9]",
    "V": r"5[0-3]|0[1-9]|[1-4][0-9]|[1-9]",
    "A": _any_of(_DAYS),
    "a": _any_of([name[:_SHORT] for name in _DAYS]),
    "w": r"[0-6]",
    "u": r"[1-7]",
    "H": r"2[0-3]|[01][0-9]|[0-9]",
    "I": r"1[0-2]|0[1-9]|[1-9]",
    "p": r"am|pm",
    "M": r"[0-5][0-9]|[0-9]",
    "S": r"6[01]|[0-5][0-9]|[0-9]",
    "f": r"[0-9]{1,6}",
    "z": r"[+-][0-9][0-9](?:"
    r":[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?|[0-5][0-9](?:[0-5][0-9](?:\.[0-9]{1,6})?)?)|(?-i:Z)",
    "Z": r"utc|gmt",
}
_ZONE: Final = re.compile(r"([+-])([0-9][0-9]):?([0-9][0-9]):?([0-9][0-9])?(?:\.([0-9]+))?")


class FormatProblem(ValueError):
    """The reason why a format cannot be read, with the remedy."""


class Directives:
    """One format."""

    def __init__(self, form: str) -> None:
        """Parses the format. Raises FormatProblem."""
        self.names: set[str] = set()
        pattern = ""
        for found in _TOKENS.finditer(form):
            name, blank, literal = found.groups()
            if blank is not None:
                pattern += r"\s+"
            elif literal is not None or name == "%":
                pattern += re.escape(literal or "%")
            else:
                pattern += f"(?P<{self._checked(name)}>{_PATTERNS[name]})"
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def _checked(self, name: str) -> str:
        if name in _BY_LOCALE:
            raise FormatProblem(
                f"%{name} differs with the machine's locale; spell it out, for instance as"
                f" {_BY_LOCALE[name]!r}"
            )
        if name not in _PATTERNS:
            known = ", ".join(f"%{one}" for one in _PATTERNS)
            raise FormatProblem(f"%{name} is none of {known} and %%")
        if name in self.names:
            raise FormatProblem(f"%{name} is there twice")
        self.names.add(name)
        return name

    @property
    def gives_date(self) -> bool:
        has = self.names
        by_week = ({"U"} & has or {"W"} & has) and {"w", "a", "A", "u"} & has
        in_year = "j" in has or ({"m", "b", "B"} & has and "d" in has) or by_week
        by_iso = {"G", "V"} <= has and {"w", "a", "A", "u"} & has
        return bool(in_year if {"Y", "y"} & has else by_iso)

    @property
    def gives_half_days(self) -> bool:
        """True if the hour is one of twelve, and the half of the day is missing."""
        return "I" in self.names and not {"p", "H"} & self.names

    def read(self, text: str) -> tuple[datetime, timedelta]:
        """Returns the date and time as written, as if in UTC, and the offset of its zone ahead of
        UTC. Raises ValueError.
        """
        found = self._pattern.fullmatch(text)
        if found is None:
            raise ValueError("the text is not as the format says")
        parts: dict[str, str] = found.groupdict()
        try:
            day = _date_of(parts)
        except OverflowError as why:
            raise ValueError("no calendar has such a day") from why
        number = {name: int(parts.get(name) or 0) for name in "MS"}
        fraction = int((parts.get("f") or "0").ljust(6, "0"))
        time = (_hour_of(parts), number["M"], number["S"], fraction)
        written = datetime(day.year, day.month, day.day, *time, tzinfo=UTC)
        return written, _offset_of(parts.get("z"))


def _date_of(parts: dict[str, str]) -> date:
    weekday = _weekday_of(parts)
    if "G" in parts and "V" in parts and weekday is not None and not {"Y", "y"} & parts.keys():
        return date.fromisocalendar(int(parts["G"]), int(parts["V"]), weekday + 1)
    year = int(parts["Y"]) if "Y" in parts else int(parts["y"])
    if "Y" not in parts:
        year += 1900 if year >= _CENTURY else 2000
    month = _month_of(parts)
    if "j" in parts:
        found = date(year, 1, 1) + timedelta(days=int(parts["j"]) - 1)
    elif month is not None and "d" in parts:
        return date(year, month, int(parts["d"]))
    else:
        assert weekday is not None, "the format gives no date"
        found = _in_week(year, parts, weekday)
    if found.year != year:
        raise ValueError("the year has no such day")
    return found


def _in_week(year: int, parts: dict[str, str], weekday: int) -> date:
    """Returns the date. Week 1 begins with the year's first Sunday (`%U`) or Monday (`%W`)."""
    week, shift = (int(parts["U"]), 1) if "U" in parts else (int(parts["W"]), 0)
    first = date(year, 1, 1)
    before = -(first.weekday() + shift) % 7
    return first + timedelta(days=before + 7 * (week - 1) + (weekday + shift) % 7)


def _month_of(parts: dict[str, str]) -> int | None:
    if "m" in parts:
        return int(parts["m"])
    name = parts.get("B") or parts.get("b")
    return None if name is None else _place(name, _MONTHS) + 1


def _weekday_of(parts: dict[str, str]) -> int | None:
    """Returns the weekday, from Monday, which is 0."""
    if "u" in parts:
        return int(parts["u"]) - 1
    if "w" in parts:
        return (int(parts["w"]) - 1) % 7
    name = parts.get("A") or parts.get("a")
    return None if name is None else _place(name, _DAYS)


def _place(name: str, names: list[str]) -> int:
    """Returns the place of a name. Raises ValueError: a few letters are others in capitals, and so
    pass the pattern.
    """
    short = name.lower()[:_SHORT]
    return [each[:_SHORT] for each in names].index(short)


def _hour_of(parts: dict[str, str]) -> int:
    half = parts.get("p")
    if "H" in parts:
        hour = int(parts["H"])
        if half is not None and (hour >= _NOON) != (half.lower() == "pm"):
            raise ValueError("the hour is in the other half of the day")
        return hour
    if "I" not in parts:
        return 0
    hour = int(parts["I"]) % _NOON
    return hour + _NOON if half is not None and half.lower() == "pm" else hour


def _offset_of(text: str | None) -> timedelta:
    if text is None or text == "Z":
        return timedelta(0)
    found = _ZONE.fullmatch(text)
    assert found is not None, text
    sign, hours, minutes, seconds, fraction = found.groups()
    offset = timedelta(
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds or 0),
        microseconds=int((fraction or "0").ljust(6, "0")),
    )
    if offset >= timedelta(days=1):
        raise ValueError("no zone is a day ahead of UTC")
    return -offset if sign == "-" else offset
