"""A planted bug: a few exact replacements in the sources, and what a simulation needs for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_proof.sim.plan.plan import Fault

READ: Final = "read"


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement: `old` stands exactly once in the source of `module`, and becomes `new`."""

    module: str
    """The module's dotted name: `strandline_broker.core.replication.leader`."""
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Needs:
    """The features that all plans of a mutant share."""

    topology: Mapping[str, object] = field(default_factory=dict)
    """Fields of the simulated cluster that are not drawn."""
    kinds: tuple[str, ...] = ()
    """The only kinds of faults; if empty, each seed draws its kinds."""
    aimed: tuple[Fault, ...] = ()
    """Faults of every plan, beside those that are drawn."""
    moments: tuple[str, ...] = ()
    """Three of these in every plan, and without `kinds` nothing else."""
    alone: bool = False
    """True if nothing happens except `aimed`."""
    corpus: str = ""
    """The name of a plan in tests/sim/corpus, run under its seed and the seeds after it: its faults
    have found the bug once. The plan has no other faults.
    """

    @property
    def plans(self) -> str:
        """The origin of the plans: `any` seed, `narrowed` to what the bug needs to matter, or
        `aimed`. Faults of aimed plans were written by hand or kept from when the bug was found.
        """
        if self.aimed or self.corpus:
            return "aimed"
        return "narrowed" if self.topology or self.kinds or self.moments else "any"

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.topology.items()]
        words += [*dict.fromkeys(self.kinds), *self.moments, *map(str, self.aimed)]
        return "; ".join([*words, f"corpus {self.corpus}"] if self.corpus else words)

    @property
    def short(self) -> str:
        """The needs in a few words; of aimed faults, their kinds only."""
        if self.corpus:
            return f"corpus {self.corpus}"
        given = self.topology.items()
        words = [name if name in ("groups", "work") else f"{name}={value}" for name, value in given]
        words += [*dict.fromkeys(self.kinds), *(f"moment {name}" for name in self.moments)]
        aimed = " ".join(dict.fromkeys(fault.kind for fault in self.aimed))
        return ", ".join([*words, f"at fixed times {aimed}"] if aimed else words)


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    rules: str
    """Pitfalls and invariants that it breaks."""
    what: str
    edits: tuple[Edit, ...]
    needs: Needs = field(default_factory=Needs)
    equivalent: str = ""
    """The reason why no run can tell it from the original; such a mutant is neither run nor
    counted.
    """
    history: str = ""
    """The test that finds the bug where simulated clusters do not: file and name, as pytest writes
    them, from the root of a checkout.
    """
    is_read: bool = False
    """True if a reader of the code chose the bug before any run. Plans of any seed look for it, and
    may miss it.
    """

    @property
    def plans(self) -> str:
        """The origin of the plans that find it; `history` for a written test; `read` if a reader
        chose the bug, so its finder is unknown.
        """
        if self.is_read:
            return READ
        return "history" if self.history else self.needs.plans
