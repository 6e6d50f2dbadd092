"""Local times of a place, in columns: from the time on its clocks to UTC.

Two local times a year have no single meaning. They are read as Spark and java.time read them, which
is what PEP 495 gives for fold=0:

- A time that occurs twice, when clocks go back, is the first of the two.
- A time that does not occur, when clocks go forward, counts from the offset before the gap: in
  Berlin 02:30 on such a day is 03:30.

The rules of a zone come from the machine's time zone database.
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import numpy as np

from strandline_spark.errors import OptionError

_DAY_US: Final = 86_400_000_000
_HOUR_US: Final = 3_600_000_000
_HOURS: Final = range(25)
"""The hours of a day that are asked for: both of its ends, and those between."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the time on a clock has no zone
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY_MIN: Final = -719_162
_DAY_MAX: Final = 2_932_895
"""Days of the years 1 to 9999 whose hours can all be asked for."""


class Zone:
    """One zone."""

    def __init__(self, name: str) -> None:
        """Raises OptionError for a name that the machine's database does not have."""
        try:
            self._zone = zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as why:
            raise OptionError(
                f"zone {name!r} is not in the time zone database of this machine: give a name such"
                " as 'Europe/Berlin', or install the package tzdata"
            ) from why

        self.name = name

    def local(self, us: int) -> int:
        """Returns the microseconds since 1970 that the place's clocks show at a time in UTC."""
        within = max(_DAY_MIN * _DAY_US, min(_DAY_MAX * _DAY_US, us))
        moment = (_EPOCH + within * _MICROSECOND).replace(tzinfo=UTC)
        offset = moment.astimezone(self._zone).utcoffset()
        assert offset is not None
        return us + offset // _MICROSECOND

    def utc_of(self, local_us: int) -> int:
        """Returns `utc` of one local time."""
        return local_us - _offset_us(self._zone, local_us)

    def utc(self, local_us: Any) -> Any:
        """Returns the microseconds in UTC of an int64 array of local times since 1970."""
        days, places = np.unique(local_us // _DAY_US, return_inverse=True)
        of_days = [_offset_of_day(self._zone, day) for day in days.tolist()]
        offsets = np.array([offset or 0 for offset in of_days], dtype=np.int64)[places]
        changes = np.array([offset is None for offset in of_days], dtype=bool)[places]
        for row in np.flatnonzero(changes).tolist():
            offsets[row] = _offset_us(self._zone, int(local_us[row]))
        return local_us - offsets


@lru_cache(maxsize=1 << 16)
def _offset_of_day(zone: zoneinfo.ZoneInfo, day: int) -> int | None:
    """Returns the offset that holds for a whole day; None if it changes on that day."""
    found = {_offset_us(zone, day * _DAY_US + hour * _HOUR_US) for hour in _HOURS}
    return found.pop() if len(found) == 1 else None


def _offset_us(zone: zoneinfo.ZoneInfo, local_us: int) -> int:
    """Returns the microseconds by which the place's clocks are ahead of UTC."""
    within = max(_DAY_MIN * _DAY_US, min(_DAY_MAX * _DAY_US, local_us))
    offset = (_EPOCH + within * _MICROSECOND).replace(tzinfo=zone).utcoffset()
    assert offset is not None
    return offset // _MICROSECOND
