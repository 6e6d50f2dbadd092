"""Parsers that turn the text of a configuration value into a value, and their messages for errors.

A parser takes the text and returns the value. If it cannot, it raises ValueError with the accepted
form in words ("expected ..."), and the caller adds key and value. Topic keys and the keys of both
servers use these parsers.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WITH_UNIT: Final = re.compile(r"([0-9]+)\s*([A-Za-z]+)\Z")
_BYTES: Final = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20}
_BYTES_LARGE: Final = {"mib": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30}
_MILLISECONDS: Final = {
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "min": 60_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
KEY_LENGTH_MAX: Final = 200
SHOWN_LENGTH_MAX: Final = 100
VALUE_LENGTH_MAX: Final = 4096
"""Length limit for the text of a value that is altered at run time: every broker receives it."""
_FACTORS: Final = {"bytes": {**_BYTES, **_BYTES_LARGE}, "milliseconds": _MILLISECONDS}


def integer(low: int, high: int, unit: str = "") -> Callable[[str], int]:
    """A whole number from `low` to `high`, both included, of `unit` ("bytes", "milliseconds")."""
    what = f"a whole number of {unit}" if unit else "a whole number"
    form = f"expected {what} from {low} to {high}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(form + _without_unit(text, unit)) from None
        if not low <= value <= high:
            raise ValueError(form)
        return value

    return parse


def _without_unit(text: str, unit: str) -> str:
    """A hint for "10MB" and the like: the same amount in the form that the key accepts."""
    match = _WITH_UNIT.match(text.strip())
    if match is None or unit not in _FACTORS:
        return ""
    factor = _FACTORS[unit].get(match.group(2).lower())
    if factor is None:
        return ", without a unit"
    return f", without a unit: write {int(match.group(1)) * factor}"


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def one_of(*choices: str) -> Callable[[str], str]:
    """One of a few words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected one of: {', '.join(choices)}")
        return text

    return parse


def some_of(*choices: str) -> Callable[[str], tuple[str, ...]]:
    """One or more of a few words, none twice, with commas between."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(word.strip() for word in text.split(","))
        if not set(words) <= set(choices) or len(set(words)) < len(words):
            raise ValueError(f"expected one or more of: {', '.join(choices)}")
        return words

    return parse


def fraction(text: str) -> float:
    """A number from 0 to 1, both included."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("expected a number from 0 to 1")
    return value


def positive(text: str) -> float:
    """A number above 0; the largest float means no limit."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError("expected a number above 0")
    return value


def load_factor(text: str) -> float:
    """A number above 0 and at most 0.95: fuller tables are slow."""
    value = positive(text)
    if value > 0.95:
        raise ValueError("expected a number above 0, at most 0.95")
    return value


def cleanup_policy(text: str) -> tuple[str, ...]:
    """`delete`, `compact`, or both with a comma between."""
    policies = tuple(sorted(part.strip() for part in text.split(",")))
    if policies not in (("compact",), ("compact", "delete"), ("delete",)):
        raise ValueError("expected delete, compact or compact,delete")
    return policies


def text(value: str) -> str:
    """Any text; an empty one means that the key is not set."""
    return value.strip()


def within_length(value: str) -> str:
    """The value; ValueError for one that is too long to keep."""
    if len(value) > VALUE_LENGTH_MAX:
        raise ValueError(f"it has {len(value)} characters, expected {VALUE_LENGTH_MAX} at most")
    return value


def shown(given: str) -> str:
    """The given text, quoted for a message and cut to fit a line."""
    cut = given[:SHOWN_LENGTH_MAX]
    return repr(given) if cut == given else f"{cut!r}... ({len(given)} characters)"


def suggestion(key: str, known: Iterable[str]) -> str:
    """The text `; did you mean X?` if a known key resembles `key`, else nothing."""
    if len(key) > KEY_LENGTH_MAX:
        return ""  # the comparison takes time in proportion to the length
    close = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
