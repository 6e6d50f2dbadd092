"""Common parts of the commands about simulations: plans in files, and the full report of a
failure.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_cli.errors import UsageMistake
from strandline_cli.shown.output import note, write_line

if TYPE_CHECKING:
    from strandline_proof.sim.plan.plan import Plan
    from strandline_proof.sim.run.run import RunResult

DIRTY: Final = "-dirty"
VERSION: Final = "version "


def commit(source: Path = Path(__file__)) -> str:
    """The commit of these sources, with `-dirty` if files have changed since; `version N` where git
    does not know them, and empty if there is no version either.
    """
    try:
        # An installed package may lie in the repository of something else.
        _git(source, "ls-files", "--error-unmatch", source.name)
        return _git(
            source, "describe", "--always", f"--dirty={DIRTY}", "--abbrev=12", "--exclude=*"
        )
    except (OSError, subprocess.SubprocessError):
        from importlib.metadata import PackageNotFoundError, version

        try:
            return VERSION + version("strandline")
        except PackageNotFoundError:
            return ""


def _git(source: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=source.resolve().parent,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return done.stdout.strip()


def load_plan(file: Path, *, any_commit: bool) -> Plan:
    """The plan in a file. Raises UsageMistake with the fault."""
    from strandline_proof.sim.plan.plan import BadPlan, read_plan

    here = "" if any_commit else commit()
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
        plan = read_plan(text, commit=here)
    except BadPlan as why:
        raise UsageMistake(f"{file} is no plan to run: {why}") from None
    if not any_commit:
        _warn(file, plan.commit, here)
    return plan


def _warn(file: Path, made_by: str, here: str) -> None:
    """Say so where equal sources cannot be vouched for."""
    if not made_by:
        note(f"{file} names no commit: on other sources the same plan is another history")
    elif not here:
        note(f"{file} is of {made_by}, and what these sources are of cannot be told")
    elif here.endswith(DIRTY):
        note(f"{file} is of {made_by}: if files have changed again since, it is another history")


def check_folder(folder: Path) -> None:
    """Raises UsageMistake if plans cannot be saved there: before a sweep, not after it."""
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
    """Save the plan of a failure; a file of another plan is not replaced."""
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


def _struck(result: RunResult) -> str:
    """The number of the plan's faults that had an effect."""
    planned, struck = len(result.plan.faults), result.struck.total()
    said = f"{struck} of {planned} faults struck"
    if struck < planned:
        said += f"; {planned - struck} found nothing to strike"
        said += " before everything healed" if result.sound else " by then"
    if result.unprompted:
        said += f"; {result.unprompted} waited in vain for an event, and went on without it"
    return said


def report(result: RunResult, file: Path | None, *, timeline: bool) -> None:
    """A run in words: the plan, each node's log, the broken invariants, and the command that
    repeats it.
    """
    from strandline_proof.sim.run.report import last_words

    plan = result.plan
    write_line(plan.text())
    if timeline:
        write_line(result.timeline.text())
    elif not result.sound:
        write_line(last_words(result))
    write_line(
        f"{result.steps} steps, {result.simulated_s:.1f} simulated seconds, digest {result.digest}"
    )
    if plan.faults:
        write_line(_struck(result))
    if result.sound:
        write_line(f"sound: {result.acknowledged} records acknowledged")
        return
    write_line(f"BROKEN {result.invariant}: {result.what}")
    if file is not None:
        write_line(f"replay: strandline chaos replay {file}")
