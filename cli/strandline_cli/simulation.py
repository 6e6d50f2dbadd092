"""What the commands about simulations share: plans in files, and a failure told in full."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from strandline_cli.errors import UsageMistake
from strandline_cli.output import write_line

if TYPE_CHECKING:
    from strandline_chaos.sim.plan import Plan
    from strandline_chaos.sim.run import Outcome


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
    """The plan in a file. Raises UsageMistake with what is wrong with it."""
    from strandline_chaos.sim.plan import BadPlan, read_plan

    try:
        text = file.read_text("utf-8")
    except OSError as why:
        raise UsageMistake(
            f"{file} cannot be read: {why.strerror}; give a file that `chaos sim` or `shrink` has"
            " kept"
        ) from None
    except UnicodeDecodeError as why:
        raise UsageMistake(f"{file} is no plan to run: it is not text: {why}") from None
    try:
        return read_plan(text, commit="" if any_commit else commit())
    except BadPlan as why:
        raise UsageMistake(f"{file} is no plan to run: {why}") from None


def check_folder(folder: Path) -> None:
    """Raises UsageMistake if plans could not be kept there: said before a sweep, not after it."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageMistake(f"--save {folder}: {there} is a file; name a folder for failing plans")
    if not os.access(there, os.W_OK):
        raise UsageMistake(f"--save {folder}: nothing can be written to {there}")


def write_plan(plan: Plan, file: Path) -> None:
    file.write_text(_text(plan), "utf-8")


def _text(plan: Plan) -> str:
    return json.dumps(plan.document(), indent=1) + "\n"


def save_plan(plan: Plan, folder: Path) -> Path:
    """Keep the plan of a failure; a file of another plan is not replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    text = _text(plan)
    for number in itertools.count(1):
        file = folder / (
            f"seed-{plan.seed}.json" if number == 1 else f"seed-{plan.seed}-{number}.json"
        )
        if not file.exists() or file.read_text("utf-8") == text:
            break
    file.write_text(text, "utf-8")
    return file


def report(outcome: Outcome, file: Path | None, *, timeline: bool) -> None:
    """A run in words: the plan, what each node said, what was broken, how to see it again."""
    from strandline_chaos.sim.report import last_words

    plan = outcome.plan
    write_line(plan.text())
    if timeline:
        write_line(outcome.timeline.text())
    elif not outcome.sound:
        write_line(last_words(outcome))
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
