"""`strandline leader losses`."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_json, emit_table, listed, note

if TYPE_CHECKING:
    from strandline.types import LossInfo

_COLUMNS = (
    "topic",
    "partition",
    "leader_epoch",
    "leader",
    "lost",
    "possibly lost",
    "acknowledged",
    "said by",
)


def losses(
    topic: Annotated[
        str | None, typer.Argument(show_default=False, help="Of this topic alone.")
    ] = None,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show which offsets were lost, or may be, where nobody in sync was left to lead.

    One line for each election of a leader not known to be in sync, the oldest first.
    Lost are the offsets that replicas have given up, or lost, as far as they have said so.
    Possibly lost is everything from where the new leader's log ended: what no replica holds any
    more, as after a loss of power of all, nobody can tell. Below that nothing is.
    Acknowledged are those of the lost that were committed, with acks=all no others: at least as
    many as a replica knew to be. "unknown": nobody knew of any.
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
        emit_table(_COLUMNS, [_row(loss) for loss in found])
    return 0


def _row(loss: "LossInfo") -> tuple[object, ...]:
    return (
        loss.topic,
        loss.partition,
        loss.leader_epoch,
        loss.leader,
        f"{loss.start} to {loss.end - 1}" if loss.start >= 0 else "unknown",
        "-" if loss.possibly_from is None else f"{loss.possibly_from} and on",
        _acknowledged(loss),
        listed(loss.brokers),
    )


def _acknowledged(loss: "LossInfo") -> str:
    """At least what a replica knew to be committed, at most all that was given up, if that is all
    that can be lost.
    """
    most = _at_most(loss)
    if most is None:
        return f"{loss.acknowledged} or more" if loss.acknowledged > 0 else "unknown"
    return str(most) if loss.acknowledged == most else f"{loss.acknowledged} to {most}"


def _at_most(loss: "LossInfo") -> int | None:
    return loss.end - loss.start if loss.possibly_from is None else None


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
        "possibly_from": loss.possibly_from,
        "acknowledged_at_most": _at_most(loss),
        "brokers": list(loss.brokers),
    }
