"""`strandline chaos transfers`: transfers between accounts, killed brokers, and a verdict."""

import secrets
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.commands.chaos.judged_run import EXIT_NO_VERDICT, judged_run
from strandline_cli.commands.chaos.live import check_writable
from strandline_cli.errors import EXIT_FAILED, EXIT_OK
from strandline_cli.interrupts import signals_as_interrupt
from strandline_cli.options import Format, FormatOption
from strandline_cli.shown.output import emit_json, note, write_line

if TYPE_CHECKING:
    from strandline_cli.nemesis.transfers import TransferOutcome, TransferPlan


def transfers(
    minutes: Annotated[
        float, typer.Option(min=1 / 6, max=24 * 60, help="Minutes of transfers and kills.")
    ] = 5,
    kill_every: Annotated[
        float, typer.Option(min=1, metavar="S", help="Seconds from one kill to the next.")
    ] = 10,
    movers: Annotated[
        int, typer.Option(min=0, max=20, help="Number of movers with Strandline's client.")
    ] = 3,
    readers: Annotated[
        int, typer.Option(min=0, max=20, help="Number of readers with Strandline's client.")
    ] = 1,
    mover: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMAND", help="A further mover: a program; may be repeated."),
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMAND", help="A further reader: a program; may be repeated."),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Transfers a second of each mover.")] = 20,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of kills and transfers. Default: a fresh one.")
    ] = None,
    notes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save what movers and readers met, a line each."),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Move money while brokers are killed, and judge it.

    Each transfer is one transaction with two records. Movers and readers of committed transactions
    are processes. A broker gets SIGKILL every few seconds, and is started again.

    A transfer is whole or not there, below all high watermarks after its answer. The totals are
    right whenever all movers pause. Every acknowledged commit is there at the end.

    Exit status 0: sound. 1: broken. 2: no verdict.

    Example: strandline chaos transfers --minutes 5
    """
    from strandline_cli.nemesis.transfers import OURS, TransferPlan

    if notes is not None:
        check_writable(notes)
    chosen = secrets.randbelow(1 << 31) if seed is None else seed
    plan = TransferPlan(
        seconds=minutes * 60,
        seed=chosen,
        kill_every_s=kill_every,
        quiet_every_s=min(20.0, minutes * 60 / 4),
        rate=rate,
        movers=[OURS] * movers + [shlex.split(each) for each in mover or ()],
        readers=[OURS] * readers + [shlex.split(each) for each in reader or ()],
    )
    outcome = _run(plan, table=output is Format.TABLE)
    if notes is not None:
        notes.write_text("".join(f"{each}\n" for each in outcome.notes), encoding="utf-8")
    if output is Format.JSON:
        emit_json({"seed": chosen, **outcome.document()})
    else:
        _show(outcome, chosen)
    if outcome.word == "incomplete":
        return EXIT_NO_VERDICT
    return EXIT_OK if outcome.word == "sound" else EXIT_FAILED


def _run(plan: "TransferPlan", *, table: bool) -> "TransferOutcome":
    from strandline_cli.nemesis.transfers import TransferRun
    from strandline_local.local_cluster import LocalCluster

    directory = Path(tempfile.mkdtemp(prefix="strandline-transfers-"))
    cluster = LocalCluster.create(directory, brokers=3, port=0)
    run = TransferRun(cluster, plan, write_line if table else note)
    with judged_run(directory, run.stop, cluster.kill_all) as judged:
        with signals_as_interrupt():
            outcome = run.run()
        judged.is_sound = outcome.word == "sound"
        return outcome


def _show(outcome: "TransferOutcome", seed: int) -> None:
    from strandline_chaos.transfers.judge import TRANSFER_ANOMALIES

    verdict = outcome.verdict
    for name, value in outcome.document().items():
        if name not in ("verdict", "died"):
            meaning = TRANSFER_ANOMALIES.get(name, "")
            write_line(f"{name:16}{value!s:<10}{meaning}".rstrip())
            for example in verdict.anomalies[name].examples if name in verdict.anomalies else ():
                write_line(f"                {example}")
    for how in outcome.died:
        write_line(f"died by itself: {how}")
    write_line(f"verdict: {outcome.word} (seed {seed})")
