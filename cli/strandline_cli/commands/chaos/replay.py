"""`strandline chaos replay`: a plan from a file, run again."""

from pathlib import Path
from typing import Annotated

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK


def replay(
    file: Annotated[Path, typer.Argument(help="A plan that `chaos sim` or `shrink` has saved.")],
    any_commit: Annotated[bool, typer.Option(help="Accept a plan of another commit.")] = False,
) -> int:
    """Run a plan again: the same steps in the same order.

    Example: strandline chaos replay chaos-failures/42.json
    """
    from strandline_cli.simulation.plans import load_plan, report
    from strandline_proof.sim.run.run import run_plan

    outcome = run_plan(load_plan(file, any_commit=any_commit))
    report(outcome, file, timeline=True)
    return EXIT_OK if outcome.sound else EXIT_FAILED
