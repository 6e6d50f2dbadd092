"""The check of event times that would close every window: each is bounded by its record's own
timestamp.

Gold's watermark follows the latest event time. A single one that lies years ahead would make all
later rows late. A broker bounds records' timestamps (`message.timestamp.after.max.ms`), so this
check bounds event times too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.faults import Fault, Reason, fault
from strandline_spark.parsing.settings import RECORD_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

_FAR: Final = 1 << 62
"""Limit in microseconds, 146,000 years: sums of event times and windows stay below 64 bits."""


def far_times(
    name: str, times: Any, stamps: Any, max_ahead: int | None
) -> Iterator[tuple[int, Fault]]:
    """Yields rows with an event time of column `name` that is too far, and the fault. `stamps` are
    the records' timestamps; a negative one stands for none.
    """
    event, is_there = _micros(times)
    for row in np.flatnonzero(is_there & ((event > _FAR) | (event < -_FAR))).tolist():
        detail = f"{name} is {event[row]} µs from 1970, beyond the years that windows are made of"
        yield row, fault(Reason.OUT_OF_RANGE, detail)
    if name == RECORD_TIME or max_ahead is None:
        return
    own, is_stamped = _micros(stamps)
    is_stamped &= own >= 0
    latest = np.minimum(own, _FAR) + max_ahead
    for row in np.flatnonzero(is_there & ~(is_stamped & (event <= latest))).tolist():
        if is_stamped[row]:
            stamp = _text(own[row])
            detail = (
                f"{name} is {_text(event[row])}, more than max_ahead after its record's {stamp}"
            )
        else:
            detail = (
                f"{name} is {_text(event[row])}, and its record has no timestamp to compare it with"
            )
        yield row, fault(Reason.EVENT_TIME_AHEAD, detail)


def _micros(times: Any) -> tuple[Any, Any]:
    """Returns the times as numbers, and which of them are not null."""
    valid = times.is_valid().to_numpy(zero_copy_only=False)
    return pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), valid


def _text(micros: int) -> str:
    return f"{np.datetime64(int(micros), 'us')}Z"
