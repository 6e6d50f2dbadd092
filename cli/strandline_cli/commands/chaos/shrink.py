"""`strandline chaos shrink`: the reduction of a plan to the faults that its failure needs."""

from pathlib import Path
from typing import Annotated

import typer

from strandline_cli.errors import EXIT_OK, CliError


def shrink(
    file: Annotated[Path, typer.Argument(help="A plan that fails.")],
    any_commit: Annotated[bool, typer.Option(help="Accept a plan of another commit.")] = False,
) -> int:
    """Remove faults while the plan still fails in the same way.

    The result is FILE.small.json.

    Example: strandline chaos shrink chaos-failures/42.json
    """
    from dataclasses import replace

    from strandline_cli.shown.output import note
    from strandline_cli.simulation.plans import commit, load_plan, report, write_plan
    from strandline_proof.sim.plan.plan import Plan
    from strandline_proof.sim.run.run import run_plan
    from strandline_proof.sim.sweep.sweep import shrink as shrink_plan

    here = commit()
    plan = load_plan(file, any_commit=any_commit)
    if run_plan(plan).sound:
        raise CliError(f"{file} does not fail, so there is nothing to shrink")

    def on_try(candidate: Plan, fails: bool) -> None:
        note(f"{len(candidate.faults)} faults: {'still fails' if fails else 'does not fail'}")

    # The small plan fails on these sources, wherever the whole plan came from.
    small = replace(shrink_plan(plan, on_try), commit=here)
    target = file.with_suffix(".small.json")
    write_plan(small, target)
    report(run_plan(small), target, timeline=False)
    return EXIT_OK
