"""Which faults are explored together. Each profile is finite; the small ones are visited whole."""

from __future__ import annotations

from typing import Final

from strandline_chaos.model.values import Bounds

QUICK: Final = {
    "isr": Bounds(appends=1, lags=1, timeouts=1, leader_epochs=0, partition_epochs=4),
    "death": Bounds(kills=1),
    "power": Bounds(losses=1),
    "suspicion": Bounds(suspicions=1, delays=1),
    "shutdown": Bounds(shutdowns=1),
}
"""One kind of fault each: seconds, for every commit."""

DEEP: Final = {
    "isr-deep": Bounds(lags=2, timeouts=1, leader_epochs=0),
    "two-deaths": Bounds(kills=2, leader_epochs=4, partition_epochs=8),
    "death-and-power": Bounds(kills=1, losses=1, delays=1, leader_epochs=4, partition_epochs=8),
    "death-and-lag": Bounds(kills=1, lags=1, timeouts=1),
    "zombies": Bounds(suspicions=2, delays=1, leader_epochs=4, partition_epochs=8),
    "shutdown-and-death": Bounds(shutdowns=1, kills=1, leader_epochs=4, partition_epochs=8),
}
"""Several at once: up to a bound of states each."""

PROFILES: Final = {**QUICK, **DEEP}
