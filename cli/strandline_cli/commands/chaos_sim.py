"""`strandline chaos sim`: whole clusters in virtual time, one for each seed."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK, UsageMistake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_chaos.sim.plan import Plan
    from strandline_chaos.sim.run import Outcome
    from strandline_chaos.sim.sweep import Tally

PROGRESS_S = 5.0


def sim(
    seed: Annotated[int | None, typer.Option(help="Run this one seed, and say all about it.")] = (
        None
    ),
    seeds: Annotated[int | None, typer.Option(min=1, help="Run so many seeds.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Run seeds for so long, from a fresh one on.")
    ] = None,
    crash_points: Annotated[
        int | None,
        typer.Option(min=1, help="Lose power everywhere at each of the first N disk operations."),
    ] = None,
    first: Annotated[int | None, typer.Option(help="The first seed (1; fresh with --minutes).")] = (
        None
    ),
    save: Annotated[Path, typer.Option(help="Where plans that fail are kept.")] = Path(
        "chaos-failures"
    ),
    timeline: Annotated[bool, typer.Option(help="With --seed: show the timeline anyway.")] = False,
) -> int:
    """Run real servers and clients in one process, in virtual time, under a plan of faults.

    Everything follows from the seed: the cluster, the faults, every latency.
    """
    if sum(what is not None for what in (seed, seeds, minutes, crash_points)) != 1:
        raise UsageMistake("give one of --seed N, --seeds K, --minutes M, --crash-points N")
    from strandline_chaos.sim.plan import crash_point_plans, draw_plan
    from strandline_chaos.sim.sweep import sweep
    from strandline_cli.simulation import commit, note_progress, report, save_plan, show_tally

    here = commit()
    if seed is not None:
        outcomes: list[Outcome] = []
        sweep([draw_plan(seed, commit=here)], lambda outcome, _: outcomes.append(outcome))
        report(outcomes[0], save_plan(outcomes[0], save), timeline=timeline)
        return EXIT_OK if outcomes[0].sound else EXIT_FAILED
    start = time.monotonic()
    told = [start]

    def plans() -> Iterator[Plan]:
        if crash_points is not None:
            yield from crash_point_plans(crash_points, commit=here)
            return
        number = first if first is not None else 1 if minutes is None else secrets.randbits(32)
        end = None if minutes is None else start + 60 * minutes
        stop = None if seeds is None else number + seeds
        while number != stop and (end is None or time.monotonic() < end):
            yield draw_plan(number, commit=here)
            number += 1

    def on_outcome(outcome: Outcome, tally: Tally) -> None:
        if not outcome.sound:
            report(outcome, save_plan(outcome, save), timeline=False)
        if time.monotonic() - told[0] > PROGRESS_S:
            told[0] = time.monotonic()
            note_progress(tally, told[0] - start)

    tally = sweep(plans(), on_outcome)
    return show_tally(tally, time.monotonic() - start, varied=crash_points is None)
