"""All mutants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_chaos.mutants.announcing import ANNOUNCING
from strandline_chaos.mutants.asking import ASKING
from strandline_chaos.mutants.believing import BELIEVING
from strandline_chaos.mutants.compacting import COMPACTING
from strandline_chaos.mutants.controlling import CONTROLLING
from strandline_chaos.mutants.coordinating import COORDINATING
from strandline_chaos.mutants.deleting import DELETING
from strandline_chaos.mutants.following import FOLLOWING
from strandline_chaos.mutants.grouping import GROUPING
from strandline_chaos.mutants.healing import HEALING
from strandline_chaos.mutants.leading import LEADING
from strandline_chaos.mutants.leaving import LEAVING
from strandline_chaos.mutants.moving import MOVING
from strandline_chaos.mutants.reassigning import REASSIGNING
from strandline_chaos.mutants.recovering import RECOVERING
from strandline_chaos.mutants.remembering import REMEMBERING
from strandline_chaos.mutants.storing import STORING
from strandline_chaos.mutants.streaming import STREAMING

if TYPE_CHECKING:
    from strandline_chaos.mutants.mutant import Mutant

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
    *DELETING,
    *COMPACTING,
    *COORDINATING,
    *GROUPING,
    *STREAMING,
    *LEAVING,
)


class UnknownMutant(ValueError):
    """No mutant has that name; the message names those there are."""


def mutant_named(name: str) -> Mutant:
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    known = ", ".join(mutant.name for mutant in MUTANTS)
    raise UnknownMutant(f"there is no mutant {name!r}; there are {known}")
