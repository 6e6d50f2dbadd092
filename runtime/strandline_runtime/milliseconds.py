"""A clock's times in the protocol's unit: whole milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_runtime.runtime import Clock


def wall_ms(clock: Clock) -> int:
    """Milliseconds since the epoch, for the timestamps and ages of records."""
    return int(clock.time() * 1000)


def monotonic_ms(clock: Clock) -> int:
    """Milliseconds that never go back, for lags and time limits."""
    return int(clock.monotonic() * 1000)
