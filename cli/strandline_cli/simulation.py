"""What the commands about simulations share: plans in files, and a failure told in full."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_cli.errors import EXIT_FAILED, EXIT_OK, CliError
from strandline_cli.output import emit_table, note, write_line

if TYPE_CHECKING:
    from strandline_chaos.sim.plan import Plan
    from strandline_chaos.sim.run import Outcome
    from strandline_chaos.sim.sweep import Tally

LINES_PER_NODE: Final = 12


def commit() -> str:
    """The commit of these sources; empty where that cannot be told."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=Path(__file__).resolve().parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def load_plan(file: Path, *, any_commit: bool) -> Plan:
    """The plan in a file. Raises CliError with what is wrong with it."""
    from strandline_chaos.sim.plan import BadPlan, read_plan

    try:
        return read_plan(file.read_text("utf-8"), commit="" if any_commit else commit())
    except (BadPlan, UnicodeDecodeError) as why:
        raise CliError(f"{file} is no plan to run: {why}") from None


def write_plan(plan: Plan, file: Path) -> None:
    file.write_text(json.dumps(plan.document(), indent=1) + "\n", "utf-8")


def save_plan(outcome: Outcome, folder: Path) -> Path | None:
    """Where the plan of a failure was kept; None for a sound run."""
    if outcome.sound:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"seed-{outcome.plan.seed}.json"
    write_plan(outcome.plan, file)
    return file


def report(outcome: Outcome, file: Path | None, *, timeline: bool) -> None:
    """A run in words: the plan, what each node said, what was broken, how to see it again."""
    plan = outcome.plan
    write_line(plan.text())
    if timeline:
        write_line(outcome.timeline.text())
    elif not outcome.sound:
        write_line("the last of what each node said:")
        for name in (*plan.topology.nodes, "*"):
            lines = [str(line) for line in outcome.timeline.lines if line.node == name]
            for line in lines[-LINES_PER_NODE:]:
                write_line(line)
    write_line(
        f"{outcome.steps} steps, {outcome.simulated_s:.1f} simulated seconds,"
        f" digest {outcome.digest}"
    )
    if outcome.sound:
        write_line(f"sound: {outcome.acknowledged} records acknowledged")
        return
    write_line(f"BROKEN {outcome.invariant}: {outcome.failure}")
    if file is not None:
        write_line(f"replay: strandline chaos replay {file}")


def note_progress(tally: Tally, seconds: float) -> None:
    note(
        f"{tally.runs} schedules in {seconds:.0f} s ({60 * tally.runs / seconds:.0f} a minute),"
        f" {len(tally.failures)} broken"
    )


def show_tally(tally: Tally, seconds: float, *, varied: bool) -> int:
    """The tables at the end of a sweep; its exit status. `varied`: every kind of fault is due."""
    idle = tally.idle() if varied else []
    emit_table(("fault", "struck"), sorted(tally.struck.items()))
    emit_table(("sometimes", "count"), sorted(tally.sometimes.items()))
    write_line(
        f"{tally.runs} schedules, {tally.simulated_s:.0f} simulated seconds, {tally.steps} steps,"
        f" {tally.acknowledged} records acknowledged, in {seconds:.0f} s:"
        f" {60 * tally.runs / max(seconds, 0.001):.0f} schedules a minute"
    )
    for outcome in tally.failures:
        write_line(f"BROKEN seed {outcome.plan.seed}: {outcome.failure}")
    for event in idle:
        write_line(f"IDLE: {event!r} has never happened, so this sweep has tested too little")
    return EXIT_FAILED if tally.failures or idle else EXIT_OK
