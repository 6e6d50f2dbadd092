"""The effect of each kind of fault, under its name in `kinds/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.strikes.admin import AdminStrikes
from strandline_proof.sim.strikes.clients import ClientStrikes
from strandline_proof.sim.strikes.clocks import ClockStrikes
from strandline_proof.sim.strikes.damage import DamageStrikes
from strandline_proof.sim.strikes.disks import DiskStrikes
from strandline_proof.sim.strikes.doubles import DoubleStrikes
from strandline_proof.sim.strikes.groups import GroupStrikes
from strandline_proof.sim.strikes.hostile import HostileStrikes
from strandline_proof.sim.strikes.leadership import LeadershipStrikes
from strandline_proof.sim.strikes.moves import MoveStrikes
from strandline_proof.sim.strikes.network import NetworkStrikes
from strandline_proof.sim.strikes.processes import ProcessStrikes
from strandline_proof.sim.strikes.replicas import ReplicaStrikes
from strandline_proof.sim.strikes.stores import StoreStrikes
from strandline_proof.sim.strikes.transactions import TransactionStrikes
from strandline_proof.sim.strikes.windows import WindowStrikes

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.strikes.scene import Scene

FAMILIES = (
    ProcessStrikes,
    DoubleStrikes,
    NetworkStrikes,
    DiskStrikes,
    DamageStrikes,
    StoreStrikes,
    ClockStrikes,
    AdminStrikes,
    LeadershipStrikes,
    MoveStrikes,
    ClientStrikes,
    HostileStrikes,
    ReplicaStrikes,
    GroupStrikes,
    TransactionStrikes,
    WindowStrikes,
)


def all_strikes(scene: Scene) -> dict[str, Callable[..., object]]:
    """The strikes by kind. A strike that returns False has found nothing to strike, or waits for
    its moment and then counts itself in `Scene.struck`.
    """
    found: dict[str, Callable[..., object]] = {}
    for family in FAMILIES:
        found.update(family(scene).strikes)
    return found
