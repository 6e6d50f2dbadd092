"""`strandline chaos mutants`: the simulator's search for bugs that were planted on purpose."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Annotated, Final

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK, UsageMistake
from strandline_cli.options import Format, FormatOption
from strandline_cli.shown.output import emit_json, emit_table, note, write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_proof.mutants.harness import Result
    from strandline_proof.mutants.mutant import Mutant

COLUMNS: Final = ("mutant", "rules", "verdict", "plans", "schedules", "seconds", "found by")
ANY: Final = "any"
READ: Final = "read"
PLANS: Final = {
    ANY: "by ordinary seeds",
    "narrowed": "by seeds narrowed to what the bug needs",
    "aimed": "by plans aimed at it",
    "history": "by a written history",
    READ: "by ordinary seeds, of those that a reader of the code chose",
}
"""The kinds of plans, ordered by how much they say about a sweep; the last ones are counted
separately.
"""


def mutants(
    only: Annotated[
        list[str] | None, typer.Option(help="Look for this mutant; may be repeated.")
    ] = None,
    read: Annotated[
        bool,
        typer.Option(
            "--read", help="Look for mutants that a reader of the code chose, and --only."
        ),
    ] = False,
    ordinary: Annotated[
        bool,
        typer.Option(
            "--ordinary", help="Look with ordinary seeds only, whatever plans a mutant has."
        ),
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Limit of schedules for each mutant.")] = 200,
    first: Annotated[int, typer.Option(min=1, help="The first seed.")] = 1,
    seconds: Annotated[float, typer.Option(min=1, help="Limit of seconds for each mutant.")] = 300,
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of mutants to simulate at the same time.")
    ] = 1,
    output: FormatOption = Format.TABLE,
) -> int:
    """Plant one bug after the other, and simulate until found.

    Each is planted in a copy of the sources.

    Exit status 1 if a bug is not found. Bugs that are equivalent, or that a reader chose, do not
    count. With --ordinary, only bugs that ordinary seeds are known to find count.

    Example: strandline chaos mutants --ordinary --seeds 50
    """
    from strandline_cli.errors import CliError
    from strandline_cli.simulation.plans import commit
    from strandline_proof.mutants.catalogue import (
        MUTANTS,
        READ_BUGS,
        UnknownMutant,
        mutant_named,
    )
    from strandline_proof.mutants.harness import Bounds, look_for_all
    from strandline_proof.mutants.scratch import DoesNotApply, patched

    here = commit()
    try:
        named = [*map(mutant_named, only or ()), *(READ_BUGS if read else ())]
        chosen: Sequence[Mutant] = named or MUTANTS
    except UnknownMutant as why:
        raise UsageMistake(f"--only: {why}") from None
    chosen = sorted(chosen, key=lambda mutant: list(PLANS).index(mutant.plans))

    def on_result(result: Result) -> None:
        name, status, runs = result.mutant.name, result.status, result.runs
        note(f"{name}: {status} after {runs} schedules {result.by}".rstrip())

    bounds = Bounds(seeds, seconds, first, ordinary)
    try:
        for mutant in chosen:
            patched(mutant)
        results = look_for_all(chosen, bounds, jobs=jobs, on_result=on_result)
    except DoesNotApply as why:
        raise CliError(f"{why}; bring the mutant up to date with the sources") from None
    if output is Format.JSON:
        emit_json(_document(results, bounds.ordinary, here))
    else:
        _show(results, bounds.ordinary, here)
    return EXIT_FAILED if any(_is_missed(r, ordinary) for r in results) else EXIT_OK


def _is_missed(result: Result, ordinary: bool) -> bool:
    plans = result.mutant.plans
    return not result.passes and (plans == ANY if ordinary else plans != READ)


def _shares(results: Sequence[Result], ordinary: bool) -> dict[str, tuple[int, int]]:
    """The number of bugs found, of how many, by kind of plan; equivalent ones are not counted."""
    by: dict[str, list[Result]] = {plans: [] for plans in PLANS}
    for r in results:
        if not r.mutant.equivalent:
            plans = r.mutant.plans
            by[ANY if ordinary and plans != READ else plans].append(r)
    of = {plans: len(these) for plans, these in by.items()}
    of[ANY] = sum(of.values()) - of[READ]
    return {
        plans: (sum(r.passes for r in these), of[plans]) for plans, these in by.items() if of[plans]
    }


def _document(results: Sequence[Result], ordinary: bool, commit: str) -> dict[str, object]:
    shares = _shares(results, ordinary)
    return {
        "commit": commit,
        "machine": _machine(),
        "ordinary": ordinary,
        "shares": {plans: {"found": n, "of": m} for plans, (n, m) in shares.items()},
        "mutants": [result.document() for result in results],
    }


def _show(results: Sequence[Result], ordinary: bool, commit: str) -> None:
    for plans, (found, of) in _shares(results, ordinary).items():
        write_line(f"{found} of {of} {PLANS[plans]}")
    emit_table(COLUMNS, [_row(result) for result in results])
    for r in results:
        if r.mutant.equivalent:
            write_line(f"equivalent: {r.mutant.name}: {r.mutant.equivalent}")
        elif not r.passes:
            write_line(f"NOT FOUND: {r.mutant.name}: {r.status} {r.why}".rstrip())
        elif ordinary and r.mutant.plans not in (ANY, READ):
            write_line(f"found without its own plans: {r.mutant.name} ({r.mutant.plans})")
    write_line(f"commit {commit or 'unknown'}, {_machine()}")


def _row(result: Result) -> tuple[object, ...]:
    mutant, seconds = result.mutant, f"{result.seconds:.1f}" if result.runs else ""
    runs = result.runs or ""
    return (mutant.name, mutant.rules, result.status, mutant.plans, runs, seconds, result.by)


def _machine() -> str:
    return f"{platform.machine()} {platform.system()}, Python {platform.python_version()}"
