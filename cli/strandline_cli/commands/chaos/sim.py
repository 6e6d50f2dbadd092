"""`strandline chaos sim`: whole clusters in virtual time, one for each seed."""

from __future__ import annotations

import math
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK, UsageMistake
from strandline_cli.options import Format, FormatOption
from strandline_cli.shown.output import note
from strandline_cli.simulation.plans import check_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proof.sim.plan.plan import Plan


def sim(
    seed: Annotated[
        int | None, typer.Option(min=0, help="Run this one seed, and report all details.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds to run.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.01, help="Minutes for which to run seeds, from a fresh one on."),
    ] = None,
    crash_points: Annotated[
        int | None,
        typer.Option(min=1, help="Lose power everywhere at each of the first N disk operations."),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=0, help="The first seed (1; fresh with --minutes).")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of schedules at the same time. Default: every core."),
    ] = None,
    save: Annotated[Path, typer.Option(help="Folder in which plans that fail are saved.")] = Path(
        "chaos-failures"
    ),
    groups: Annotated[
        bool, typer.Option(help="Let seeds draw consumer groups and their faults.")
    ] = True,
    timeline: Annotated[
        bool, typer.Option(help="With --seed: show the timeline even without a failure.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> int:
    """Run servers and clients in virtual time, under faults.

    All of them are real, in one process. The seed determines everything: the cluster, the faults,
    every latency.

    Example: strandline chaos sim --seed 42
    """
    how_much = (seed, seeds, minutes, crash_points)
    if sum(what is not None for what in how_much) != 1:
        raise UsageMistake("give one of --seed N, --seeds K, --minutes M, --crash-points N")
    _check_options(seed, minutes, first, jobs, sweeps=seeds is not None, timeline=timeline)
    check_folder(save)
    if seed is not None:
        if output is Format.JSON:
            raise UsageMistake("--format json is for sweeps: use it with --seeds K --first N")
        return _one(seed, save, groups=groups, timeline=timeline)
    from strandline_cli.simulation.plans import commit
    from strandline_cli.simulation.sweeping import Sweep
    from strandline_proof.sim.plan.plan import CRASH_POINT_PLACES, crash_point_plans, draw_plan
    from strandline_proof.sim.sweep.pool import Pool

    here = commit()
    jobs = jobs or len(os.sched_getaffinity(0))
    if crash_points is not None:
        number = len(CRASH_POINT_PLACES) * crash_points
        crashes = Sweep(
            number=number,
            varied=False,
            commit=here,
            save=save,
            output=output,
            go_on=lambda done: f"{number - done} of {number} crash points, from the beginning",
        )
        plans = crash_point_plans(crash_points, commit=here)
        return crashes.run(plans, Pool(min(jobs, number)).sweep)
    base = first if first is not None else 1 if minutes is None else secrets.randbits(32)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    drawn_by = "" if groups else " --no-groups"

    def drawn() -> Iterator[Plan]:
        now = base
        while now - base != seeds and (end is None or time.monotonic() < end):
            yield draw_plan(now, commit=here, groups=groups)
            now += 1

    def go_on(done: int) -> str:
        rest = f"--minutes {minutes}" if seeds is None else f"--seeds {seeds - done}"
        return f"strandline chaos sim --first {base + done} {rest}{drawn_by}"

    note(
        f"seeds from {base} on, commit {here or 'unknown'}; replay one: strandline chaos sim"
        f" --seed N{drawn_by}"
    )
    sweep = Sweep(number=seeds, varied=True, commit=here, save=save, output=output, go_on=go_on)
    return sweep.run(drawn(), Pool(min(jobs, seeds or jobs)).sweep)


def _check_options(
    seed: int | None,
    minutes: float | None,
    first: int | None,
    jobs: int | None,
    *,
    sweeps: bool,
    timeline: bool,
) -> None:
    """No option is taken and ignored."""
    if first is not None and not sweeps and minutes is None:
        raise UsageMistake("--first is where a sweep begins: give it with --seeds K or --minutes M")
    if jobs is not None and seed is not None:
        raise UsageMistake(f"--jobs is for sweeps: --seed {seed} is one run, leave it out")
    if timeline and seed is None:
        raise UsageMistake("--timeline is of one run: give it with --seed N")
    if minutes is not None and not math.isfinite(minutes):
        raise UsageMistake(f"--minutes {minutes} is no length of time; give a number")


def _one(seed: int, save: Path, *, groups: bool, timeline: bool) -> int:
    from strandline_cli.simulation.plans import commit, report, save_plan
    from strandline_proof.sim.plan.plan import draw_plan
    from strandline_proof.sim.run.run import run_plan

    outcome = run_plan(draw_plan(seed, commit=commit(), groups=groups))
    report(outcome, None if outcome.sound else save_plan(outcome.plan, save), timeline=timeline)
    return EXIT_OK if outcome.sound else EXIT_FAILED
