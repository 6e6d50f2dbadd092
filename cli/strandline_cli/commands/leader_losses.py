"""`strandline leader losses`."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.output import emit_json, emit_table, listed, note
from strandline_cli.target import find_target

if TYPE_CHECKING:
    from strandline.types import LossInfo

_COLUMNS = (
    "topic",
    "partition",
    "leader_epoch",
    "leader",
    "offsets",
    "acknowledged",
    "said by",
)


def losses(
    topic: Annotated[
        str | None, typer.Argument(show_default=False, help="Of this topic alone.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also elections that lost nothing so far.")
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show which offsets were lost where nobody in sync was left to lead.

    One line for each election that lost any, the oldest first; --format json has them all.
    The offsets are those that replicas have given up, or lost, as far as they have said so: a
    replica that is down still may hold more. Acknowledged are those that were committed, with
    acks=all no others: at least as many as a replica knew to be, at most all.
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "tuple[LossInfo, ...]":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            return (await admin.describe_cluster()).losses

    found = [loss for loss in run_client(work()) if topic in (None, loss.topic)]
    if output is Format.JSON:
        emit_json({"losses": [_document(loss) for loss in found]})
    elif not found:
        note("every leader so far was known to be in sync: nothing was lost by an election")
    else:
        _show(found if everything else [loss for loss in found if loss.start >= 0], len(found))
    return 0


def _show(shown: "list[LossInfo]", there_are: int) -> None:
    if shown:
        emit_table(_COLUMNS, [_row(loss) for loss in shown])
    if (hidden := there_are - len(shown)) > 0:
        elections = "election" if hidden == 1 else "elections"
        note(
            f"{hidden} {'more ' if shown else ''}{elections} of a leader not known to be in sync,"
            " by which no replica has lost anything so far (--all shows them)"
        )


def _row(loss: "LossInfo") -> tuple[object, ...]:
    known = loss.start >= 0
    return (
        loss.topic,
        loss.partition,
        loss.leader_epoch,
        loss.leader,
        f"{loss.start} to {loss.end - 1}" if known else "none known",
        _acknowledged(loss),
        listed(loss.brokers),
    )


def _acknowledged(loss: "LossInfo") -> str:
    """At least what a replica knew to be committed, at most all that was given up."""
    most = _lost(loss)
    return str(most) if loss.acknowledged == most else f"{loss.acknowledged} to {most}"


def _lost(loss: "LossInfo") -> int:
    return loss.end - loss.start if loss.start >= 0 else 0


def _document(loss: "LossInfo") -> dict[str, object]:
    return {
        "topic": loss.topic,
        "partition": loss.partition,
        "leader_epoch": loss.leader_epoch,
        "leader": loss.leader,
        "elected_uncleanly": loss.elected_uncleanly,
        "first_offset": loss.start if loss.start >= 0 else None,
        "last_offset": loss.end - 1 if loss.start >= 0 else None,
        "acknowledged": loss.acknowledged,
        "acknowledged_at_most": _lost(loss),
        "brokers": list(loss.brokers),
    }
