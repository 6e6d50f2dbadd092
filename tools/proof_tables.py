"""proof/planted-bugs.md, from the code of the simulator: faults, moments, events, planted bugs."""

from collections.abc import Iterator
from inspect import getdoc

from md_table import table
from strandline_proof.mutants.catalogue import MUTANTS
from strandline_proof.mutants.mutant import READ, Mutant
from strandline_proof.mutants.unplanted import UNPLANTED
from strandline_proof.sim.kinds import GROUP_KINDS, KINDS, TRANSACTION_KINDS
from strandline_proof.sim.kinds.meaning import MEANING
from strandline_proof.sim.plan.group_moments import GROUP_MOMENTS
from strandline_proof.sim.plan.moments import MOMENTS
from strandline_proof.sim.plan.transaction_moments import TRANSACTION_MOMENTS
from strandline_proof.sim.sweep.expected import (
    EVENTS,
    GROUP_EVENTS,
    TRANSACTION_EVENTS,
    runs_needed,
)

HEAD = """\
# Tables of the proof

`make docs` writes these tables from the code; change them there.
[proof.md](../docs/internals/proof.md) says what they are for.
"""
FAULTS = """\
A seed draws from one to nine of these kinds, their times and their arguments. A target may be a
role, such as the leader of partition 0 when the fault strikes.
"""
MOMENTS_HEAD = """\
A moment is a short sequence of faults, aimed at a window that single faults hardly hit.
"""
SOMETIMES = """\
A sweep of so many schedules or more fails if it has never seen the event. The same holds for each
kind of fault.
"""
BUGS = """\
`strandline chaos mutants` plants each bug in a copy of the sources. It reports which oracle
objects, and after how many schedules. A sweep finds what ordinary seeds find; `--ordinary` looks
for all bugs with these. The other bugs need plans that say less of a sweep, and each row names
them:

- *narrowed* to a cluster, to kinds of faults or to a moment without which the bug does not matter
- *aimed*, with faults at fixed times, or with those of the corpus plan that once found the bug
- a written history
"""
READ_HEAD = """\
A reader of the product, who had not read the oracles, chose these bugs before any run. None has a
plan of its own, and none was dropped because of a result. `strandline chaos mutants --read
--ordinary` looks for them. They are not in the counts above. The share that ordinary seeds find
shows how sharp a sweep is for bugs that its authors did not think of.
"""
ANY = "any"
PLANS = {
    ANY: "By ordinary seeds",
    "narrowed": "By narrowed plans",
    "aimed": "By aimed plans",
    "history": "By written histories",
}


def proof_tables() -> str:
    return "\n".join(
        [
            HEAD,
            f"## Faults\n\n{FAULTS}\n{table(('fault', 'drawn by', 'what it does'), faults())}",
            f"## Moments\n\n{MOMENTS_HEAD}\n{table(('moment', 'what happens'), moments())}",
            f"## Sometimes\n\n{SOMETIMES}\n{table(('event', 'schedules'), events())}",
            f"## Planted bugs\n\n{shares()}\n{BUGS}",
            *(planted(how, title) for how, title in PLANS.items()),
            planted(READ, "Chosen by a reader", READ_HEAD),
            f"### Equivalent, and not counted\n\n{table(('bug', 'rules', 'why'), equivalent())}",
            "### Pitfalls without a planted bug\n\n"
            + table(("pitfall", "what stands for it"), UNPLANTED.items()),
        ]
    )


def faults() -> Iterator[tuple[str, str, str]]:
    for kind, what in MEANING.items():
        drawn = "seeds with groups" if kind in GROUP_KINDS else "tests"
        if kind in TRANSACTION_KINDS:
            drawn = "seeds with transactions"
        yield f"`{kind}`", "any seed" if kind in KINDS else drawn, what


def moments() -> Iterator[tuple[str, str]]:
    for name, steps in [*MOMENTS.items(), *GROUP_MOMENTS.items(), *TRANSACTION_MOMENTS.items()]:
        yield f"`{name}`", " ".join((getdoc(steps) or "").split())


def events() -> Iterator[tuple[str, str]]:
    for event, rate in EVENTS.items():
        of = " with groups" if event in GROUP_EVENTS else ""
        if event in TRANSACTION_EVENTS:
            of = " with transactions"
        yield event, f"{runs_needed(rate)}{of}"


def counted(how: str) -> list[Mutant]:
    return [mutant for mutant in MUTANTS if mutant.plans == how and not mutant.equivalent]


def shares() -> str:
    """The counts of planted bugs, those that ordinary seeds find first."""
    found = {how: len(counted(how)) for how in PLANS}
    words = ("ordinary seeds", "narrowed plans", "aimed plans", "written histories")
    rest = ", ".join(
        f"{n} by {word}" for word, (how, n) in zip(words, found.items(), strict=True) if how != ANY
    )
    return f"**{found[ANY]} of {sum(found.values())} by ordinary seeds**; {rest}.\n"


def planted(how: str, title: str, words: str = "") -> str:
    bugs, head = counted(how), ["bug", "rules", "what is broken"]
    rows = [[f"`{bug.name}`", bug.rules, bug.what] for bug in bugs]
    if how not in (ANY, READ):
        head.append("by")
        for row, bug in zip(rows, bugs, strict=True):
            row.append(f"`{bug.history}`" if bug.history else f"{how}: {bug.needs.short}")
    words = f"{words}\n" if words else ""
    return f"### {title}: {len(bugs)}\n\n{words}{table(head, rows)}"


def equivalent() -> Iterator[tuple[str, str, str]]:
    for mutant in MUTANTS:
        if mutant.equivalent:
            yield f"`{mutant.name}`", mutant.rules, mutant.equivalent
