"""Numbers, sizes and times in a readable form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
UNKNOWN: Final = "–"  # noqa: RUF001 - an en dash, as tables have it


def number(value: float | None) -> str:
    """Returns `12,345`; fractions only if the number is small."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"


def short(value: float) -> str:
    """Returns `12.3 k`, for an axis."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def size(value: float | None) -> str:
    """Returns bytes as `1.5 MB`, in powers of ten."""
    if value is None:
        return UNKNOWN
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= least:
            return f"{value / least:.1f} {unit}"
    return f"{value:.0f} B"


def duration(seconds: float | None) -> str:
    """Returns `850 ms`, `12.3 s`, `4 min 10 s`, `3 h 5 min`, `2 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    at = next(at for at, (_, length) in enumerate(_UNITS) if seconds >= length)
    (unit, length), (lesser, smaller) = _UNITS[at], _UNITS[at + 1]
    whole = int(seconds // length)
    rest = int((seconds - whole * length) // smaller)
    return f"{whole} {unit} {rest} {lesser}" if rest else f"{whole} {unit}"


def moment(ms: float | None) -> str:
    """Returns `2026-01-31 23:59:59`, in UTC. Times that Python cannot represent are numbers."""
    if ms is None:
        return UNKNOWN
    try:
        return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{ms:.0f} ms"


def axis_moment(ms: float, span_ms: float) -> str:
    """Returns as much of a time as distinguishes the ends of an axis."""
    text = moment(ms)
    return text[:16] if span_ms >= 86_400_000 else text[11:]


def percent(share: float) -> str:
    return f"{share * 100:.1f} %" if share < 0.995 or share == 1 else "99 %"


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{number(count)} {one if count == 1 else many or one + 's'}"
