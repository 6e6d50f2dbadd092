"""Profiles: the faults that are explored together, and the start of their histories.

Each profile is finite; the small ones are visited whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_proof.model.values import Bounds

if TYPE_CHECKING:
    from strandline_proof.model.world import Action


class Profile(NamedTuple):
    bounds: Bounds
    start: tuple[Action, ...] = ()
    """The first steps of every history of this profile. The search begins after them, as the first
    steps of any history are dull.
    """


COMMITTED: Final[tuple[Action, ...]] = (
    ("append", 1),
    ("fetch", 2),
    ("answer-arrives", 2),
    ("fetch", 3),
    ("answer-arrives", 3),
    ("fetch", 2),
    ("fetch", 3),
)
"""All three brokers hold one record, and their leader has committed it."""

ONE_OUT: Final[tuple[Action, ...]] = (
    ("fetch", 2),
    ("lag-passes", 1),
    ("isr-is-decided", 1),
    ("isr-answer-arrives", 1),
    ("append", 1),
    ("fetch", 2),
    ("answer-arrives", 2),
    ("fetch", 2),
)
"""Broker 3 has left the ISR and lacks what the others have committed since."""

QUICK: Final = {
    "isr": Profile(
        Bounds(appends=1, lags=1, timeouts=1, answers=1, leader_epochs=0, partition_epochs=4)
    ),
    "death": Profile(Bounds(kills=1)),
    "power": Profile(Bounds(losses=1)),
    "suspicion": Profile(Bounds(suspicions=1, delays=1)),
    "shutdown": Profile(Bounds(shutdowns=1)),
}
"""One kind of fault each: seconds, for every commit."""

_ONE: Final = Bounds(appends=1)
_LONG: Final = Bounds(leader_epochs=4, partition_epochs=8)

DEEP: Final = {
    "two-deaths": Profile(_ONE._replace(kills=2)),
    "death-and-power": Profile(_ONE._replace(kills=1, losses=1)),
    "zombies": Profile(_ONE._replace(suspicions=2, leader_epochs=2)),
    "shutdown-and-death": Profile(_ONE._replace(shutdowns=1, kills=1)),
    "death-and-lag": Profile(_ONE._replace(kills=1, lags=1, leader_epochs=2)),
    "late-push": Profile(_ONE._replace(suspicions=1, kills=1, late_pushes=1, leader_epochs=2)),
    "isr-deep": Profile(Bounds(lags=2, timeouts=1, leader_epochs=0)),
    "failover": Profile(_LONG._replace(kills=2, delays=1, answers=1), COMMITTED),
    "failover-power": Profile(_LONG._replace(kills=1, losses=1, delays=1, answers=1), COMMITTED),
    "join": Profile(_LONG._replace(kills=1, lags=1, timeouts=1, late_pushes=1), ONE_OUT),
}
"""Several kinds of faults at once: up to a bound of states each."""

PROFILES: Final = {**QUICK, **DEEP}
