"""`strandline chaos mutants`: does the simulator find bugs that were planted on purpose?"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK, UsageMistake
from strandline_cli.options import Format, FormatOption
from strandline_cli.output import emit_json, emit_table, note, write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_proof.mutants.harness import Result
    from strandline_proof.mutants.mutant import Mutant

COLUMNS = ("mutant", "rules", "verdict", "plans", "seeds", "seconds", "found by")


def mutants(
    only: Annotated[
        list[str] | None, typer.Option(help="Look for this mutant; may be given again.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds at most for each mutant.")] = 200,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds at most for each mutant.")] = 300,
    jobs: Annotated[int, typer.Option(min=1, help="Mutants at the same time.")] = 1,
    output: FormatOption = Format.TABLE,
) -> int:
    """Plant one protocol bug after the other in a copy of the sources, and simulate until found.

    Exit status 1 if one is not found that is not named equivalent.
    """
    from strandline_cli.errors import CliError
    from strandline_cli.simulation import commit
    from strandline_proof.mutants.catalogue import MUTANTS, UnknownMutant, mutant_named
    from strandline_proof.mutants.harness import Bounds, look_for_all
    from strandline_proof.mutants.scratch import DoesNotApply, patched

    here = commit()
    try:
        chosen: Sequence[Mutant] = [mutant_named(name) for name in only] if only else MUTANTS
    except UnknownMutant as why:
        raise UsageMistake(f"--only: {why}") from None

    def on_result(result: Result) -> None:
        note(f"{result.mutant.name}: {result.status} after {result.runs} seeds {result.by}")

    try:
        for mutant in chosen:
            patched(mutant)
        results = look_for_all(chosen, Bounds(seeds, seconds), jobs=jobs, on_result=on_result)
    except DoesNotApply as why:
        raise CliError(f"{why}; bring the mutant up to date with the sources") from None
    failed = [result for result in results if not result.passes]
    if output is Format.JSON:
        emit_json(
            {
                "commit": here,
                "machine": _machine(),
                "mutants": [result.document() for result in results],
            }
        )
    else:
        _show(results, failed, here)
    return EXIT_FAILED if failed else EXIT_OK


def _show(results: Sequence[Result], failed: Sequence[Result], commit: str) -> None:
    emit_table(
        COLUMNS,
        [
            (
                r.mutant.name,
                r.mutant.rules,
                r.status,
                r.mutant.plans,
                r.runs or "",
                f"{r.seconds:.1f}" if r.runs else "",
                r.by,
            )
            for r in results
        ],
    )
    for result in results:
        if result.mutant.equivalent:
            write_line(f"equivalent: {result.mutant.name}: {result.mutant.equivalent}")
    for result in failed:
        write_line(f"NOT FOUND: {result.mutant.name}: {result.status} {result.why}".rstrip())
    counted = [r for r in results if not r.mutant.equivalent]
    write_line(
        f"{len(counted) - len(failed)} of {len(counted)} mutants found;"
        f" commit {commit or 'unknown'}, {_machine()}"
    )


def _machine() -> str:
    return f"{platform.machine()} {platform.system()}, Python {platform.python_version()}"
