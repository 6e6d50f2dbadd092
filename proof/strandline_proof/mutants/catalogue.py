"""The catalogue of all mutants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strandline_proof.mutants.clients.asking import ASKING
from strandline_proof.mutants.clients.consuming import CONSUMING
from strandline_proof.mutants.clients.producing import PRODUCING
from strandline_proof.mutants.clients.speaking import SPEAKING
from strandline_proof.mutants.control.announcing import ANNOUNCING
from strandline_proof.mutants.control.controller_store import REMEMBERING
from strandline_proof.mutants.control.controlling import CONTROLLING
from strandline_proof.mutants.control.leaving import LEAVING
from strandline_proof.mutants.control.moving import MOVING
from strandline_proof.mutants.found.calls import FOUND_IN_CALLS
from strandline_proof.mutants.found.clients import FOUND_IN_CLIENTS
from strandline_proof.mutants.found.control import FOUND_IN_CONTROL
from strandline_proof.mutants.found.groups import FOUND_IN_GROUPS
from strandline_proof.mutants.found.storage import FOUND_IN_STORAGE
from strandline_proof.mutants.found.waits import FOUND_IN_WAITS
from strandline_proof.mutants.groups.coordinating import COORDINATING
from strandline_proof.mutants.groups.grouping import GROUPING
from strandline_proof.mutants.groups.rebalancing import REBALANCING
from strandline_proof.mutants.groups.streaming import STREAMING
from strandline_proof.mutants.read.clients import READ_IN_CLIENTS
from strandline_proof.mutants.read.control import READ_IN_CONTROL
from strandline_proof.mutants.read.groups import READ_IN_GROUPS
from strandline_proof.mutants.read.replication import READ_IN_REPLICATION
from strandline_proof.mutants.read.storage import READ_IN_STORAGE
from strandline_proof.mutants.replication.counting import COUNTING
from strandline_proof.mutants.replication.fencing import BELIEVING
from strandline_proof.mutants.replication.following import FOLLOWING
from strandline_proof.mutants.replication.healing import HEALING
from strandline_proof.mutants.replication.leading import LEADING
from strandline_proof.mutants.replication.overtaking import OVERTAKING
from strandline_proof.mutants.replication.reassigning import REASSIGNING
from strandline_proof.mutants.replication.recovering import RECOVERING
from strandline_proof.mutants.storage.compacting import COMPACTING
from strandline_proof.mutants.storage.deleting import DELETING
from strandline_proof.mutants.storage.storing import STORING
from strandline_proof.mutants.transactions.deciding import DECIDING
from strandline_proof.mutants.transactions.keeping import KEEPING

if TYPE_CHECKING:
    from strandline_proof.mutants.mutant import Mutant

READ_BUGS: Final = tuple(
    replace(bug, is_read=True)
    for bug in (
        *READ_IN_STORAGE,
        *READ_IN_REPLICATION,
        *READ_IN_CONTROL,
        *READ_IN_GROUPS,
        *READ_IN_CLIENTS,
    )
)
"""Bugs that a reader of the code chose before any run, without knowledge of the oracles. None was
dropped because of what a run has found.
"""

MUTANTS: Final = (
    *LEADING,
    *FOLLOWING,
    *CONTROLLING,
    *MOVING,
    *REASSIGNING,
    *RECOVERING,
    *STORING,
    *HEALING,
    *REMEMBERING,
    *ANNOUNCING,
    *BELIEVING,
    *ASKING,
    *CONSUMING,
    *PRODUCING,
    *SPEAKING,
    *DELETING,
    *COMPACTING,
    *COORDINATING,
    *GROUPING,
    *REBALANCING,
    *STREAMING,
    *DECIDING,
    *KEEPING,
    *LEAVING,
    *FOUND_IN_CONTROL,
    *FOUND_IN_GROUPS,
    *FOUND_IN_STORAGE,
    *FOUND_IN_CLIENTS,
    *FOUND_IN_WAITS,
    *FOUND_IN_CALLS,
    *OVERTAKING,
    *COUNTING,
    *READ_BUGS,
)


class UnknownMutant(ValueError):
    """No mutant has that name; the message lists the names."""


def mutant_named(name: str) -> Mutant:
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    known = ", ".join(mutant.name for mutant in MUTANTS)
    raise UnknownMutant(f"there is no mutant {name!r}; there are {known}")
