"""`strandline chaos live`: real processes or containers under faults, and a verdict."""

import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from strandline_cli.commands.chaos.judged_run import EXIT_NO_VERDICT, judged_run
from strandline_cli.errors import EXIT_FAILED, EXIT_OK, UsageMistake
from strandline_cli.interrupts import signals_as_interrupt
from strandline_cli.options import Format, FormatOption
from strandline_cli.shown.output import emit_json, note, write_line
from strandline_runtime.build_id import build_id

if TYPE_CHECKING:
    from strandline_cli.nemesis.preparation import Prepared
    from strandline_cli.nemesis.run import Outcome
    from strandline_cli.nemesis.target import Target

_SECONDS_MIN: Final = 10.0


def live(
    minutes: Annotated[
        float, typer.Option(min=_SECONDS_MIN / 60, max=24 * 60, help="Minutes of faults.")
    ] = 5,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the plan. Default: a fresh one, printed.")
    ] = None,
    processes: Annotated[
        bool, typer.Option("--processes", help="Break a cluster of own processes (default).")
    ] = False,
    containers: Annotated[
        bool,
        typer.Option(
            "--containers", help="Break the containers of ./docker-compose.yml, which are up."
        ),
    ] = False,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Kinds of faults: kill, pause, partition, delay, disk-full, disk-slow, power,"
            " clock. Default: all that this machine can make.",
        ),
    ] = None,
    victims: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Strike only these: broker ids, leader, controller. Default: all.",
        ),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option("-n", "--brokers", min=1, max=9, help="Number of own brokers (3)."),
    ] = None,
    fault_seconds: Annotated[
        float | None,
        typer.Option(min=0.5, help="Duration of each fault. Default: drawn from the seed."),
    ] = None,
    rest_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Pause after each fault. Default: drawn, with overlaps."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Limit of the number of faults. Default: none.")
    ] = None,
    rate: Annotated[
        float, typer.Option(min=1, max=100, help="Records a second of each of two writers.")
    ] = 100,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The HTML page. Default: chaos-live-SEED.html."),
    ] = None,
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the history as JSONL.")
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Print the plan and what cannot be done, and end.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> int:
    """Break real processes or containers by a plan, and judge them.

    Producers, groups and readers write a history. At the end nothing acknowledged may be lost,
    doubled or reordered. No commit may go back, and every group must reach the end.

    Each fault heals by itself. The plan is a function of the seed and the options. Faults of the
    network, of disks and of power need root. Ctrl-C ends the run and leaves nothing behind.

    Exit status 0: sound. 1: broken. 2: no verdict.

    Example: strandline chaos live --minutes 5 --seed 7
    """
    if processes and containers:
        raise UsageMistake("--processes and --containers exclude each other: give one")
    if containers and brokers is not None:
        raise UsageMistake("--brokers is for own processes: compose's file has its brokers")
    chosen = secrets.randbelow(1 << 31) if seed is None else seed
    where = page or Path(f"chaos-live-{chosen}.html")
    if not plan_only:
        check_writable(where, *([history] if history else []))
    from strandline_chaos.faults.plan import PlanMistake
    from strandline_cli.nemesis.preparation import Wanted, prepare

    wanted = Wanted(
        seed=chosen,
        seconds=round(minutes * 60, 1),
        containers=containers,
        faults=faults,
        victims=victims,
        brokers=brokers or 3,
        fault_s=fault_seconds,
        rest_s=rest_seconds,
        rounds=rounds,
        rate=rate,
    )
    say = write_line if output is Format.TABLE else note
    try:
        prepared = prepare(wanted, sys.argv[1:], say, for_real=not plan_only)
    except PlanMistake as why:
        raise UsageMistake(str(why)) from None
    if plan_only:
        return EXIT_OK
    return _run(prepared, where, history, say, output)


def check_writable(*files: Path) -> None:
    """Raises UsageMistake for a file that cannot be written, and leaves no empty one behind."""
    for file in files:
        was_there = file.exists()
        try:
            with file.open("a"):
                pass
            if not was_there:
                file.unlink()
        except OSError as why:
            raise UsageMistake(f"cannot write {file}: {why.strerror}; name another file") from None


def _run(
    prepared: "Prepared",
    page: Path,
    history: Path | None,
    say: Callable[[str], None],
    output: Format,
) -> int:
    from strandline_cli.nemesis.run import ChaosRun

    directory = Path(tempfile.mkdtemp(prefix="strandline-chaos-"))
    target = prepared.target(directory)
    run = ChaosRun(target, prepared.faults, prepared.settings, directory, say)
    with judged_run(directory, run.stop, target.close) as judged:
        with signals_as_interrupt():
            outcome = run.run()
        judged.is_sound = outcome.verdict.word == "sound"
        return _report(prepared, outcome, target, page, history, output, say)


def _report(
    prepared: "Prepared",
    outcome: "Outcome",
    target: "Target",
    page: Path,
    history: Path | None,
    output: Format,
    say: Callable[[str], None],
) -> int:
    from strandline_chaos.faults.page import render
    from strandline_chaos.faults.series import Report
    from strandline_cli.nemesis.workload_process import save_history

    if history is not None:
        save_history(outcome.events, history)
    report = Report(
        options=prepared.options,
        cannot=prepared.cannot,
        skipped=outcome.skipped,
        target=target.title,
        flag=target.flag,
        build=build_id(),
        when=time.strftime("%Y-%m-%d %H:%M %Z"),
        events=outcome.events,
        begun_ns=outcome.begun_ns,
        verdict=outcome.verdict,
    )
    page.write_text(render(report), encoding="utf-8")
    say(f"page: {page}")
    if output is Format.JSON:
        emit_json({**report.document(), "page": str(page)})
    else:
        write_line(report.line())
    if outcome.verdict.word == "incomplete":
        return EXIT_NO_VERDICT
    return EXIT_OK if outcome.verdict.word == "sound" else EXIT_FAILED
