"""The durations of pipeline.toml, such as `5 minutes`."""

from __future__ import annotations

import re
from typing import Final

from strandline_spark.errors import OptionError

DAY_US: Final = 86_400 * 10**6
_DURATION: Final = re.compile(r"(\d{1,9}) *(second|minute|hour|day|week)s?")
_UNITS_US: Final = {
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": DAY_US,
    "week": 7 * DAY_US,
}
_DURATION_MAX_US: Final = 36_500 * DAY_US
"""A hundred years, so that sums with event times stay below 64 bits."""


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
