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
    """In the source of `module`, `old` stands exactly once and becomes `new`."""

    module: str
    """The module's dotted name: `strandline_broker.core.replication.leader`."""
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What the plans of a mutant have in common."""

    topology: Mapping[str, object] = field(default_factory=dict)
    """Fields of the simulated cluster that are not drawn."""
    kinds: tuple[str, ...] = ()
    """The only kinds of faults; empty: as each seed draws them."""
    aimed: tuple[Fault, ...] = ()
    """Faults of every plan, beside those that are drawn."""
    moments: tuple[str, ...] = ()
    """Three of these in every plan, and without `kinds` nothing else."""
    alone: bool = False
    """Whether `aimed` is all that happens."""
    corpus: str = ""
    """The plan of this name in tests/sim/corpus, under its seed and those after it: the faults that
    have found the bug once. There is nothing else then.
    """

    @property
    def plans(self) -> str:
        """Whose plans they are: those of `any` seed; `narrowed` to what the bug needs to matter at
        all; or with faults `aimed` by hand, or kept from when the bug was found.
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
        """The same in a few words: of faults that are aimed, their kinds."""
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
    """Why no run can tell it from the original; it is then neither run nor counted."""
    history: str = ""
    """The test that finds it where simulated clusters do not: file and name, as pytest has them,
    from the root of a checkout.
    """
    is_read: bool = False
    """A reader of the code chose it before any run. Plans of any seed look for it, and may miss it.
    """

    @property
    def plans(self) -> str:
        """Whose plans find it, or that a written `history` does; `read`: nobody knows before."""
        if self.is_read:
            return READ
        return "history" if self.history else self.needs.plans
