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
from strandline_cli.shown.partitions import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        str | None, typer.Argument(show_default=False, help="Show only losses of this topic.")
    ] = None,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show what was lost when no in-sync replica was left to lead.

    One line for each election of a leader not known to be in sync, the oldest first.

    Lost: the offsets that replicas have truncated or lost, as far as they have reported.

    Possibly lost: all offsets from the end of the new leader's log on. After a loss of power
    everywhere, no replica can tell what it held. Nothing below that end is lost.

    Acknowledged: the committed ones of the lost; acks=all acknowledges only these. The number is a
    minimum, as far as a replica knew. "unknown": no replica knew of any.

    Example: strandline leader losses orders
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
        emit_table(_COLUMNS, _rows(found))
    return 0


def _rows(found: "Sequence[LossInfo]") -> "list[tuple[object, ...]]":
    """The rows of the losses. Partitions of one topic with equal facts and no record known to be
    lost share one row below the others: after a loss of all power these are all empty partitions.
    """
    alike: dict[tuple[object, ...], list[LossInfo]] = {}
    for loss in found:
        if loss.start < 0 and loss.acknowledged == 0:
            alike.setdefault((loss.topic, loss.possibly_from, loss.brokers), []).append(loss)
    several = [losses for losses in alike.values() if len(losses) > 1]
    together = {id(loss) for losses in several for loss in losses}
    return [
        *(_row(loss) for loss in found if id(loss) not in together),
        *map(_row_of, several),
    ]


def _row_of(several: "Sequence[LossInfo]") -> tuple[object, ...]:
    topic, _, _, _, *rest = _row(several[0])
    partitions = sorted({loss.partition for loss in several})
    epochs = sorted({loss.leader_epoch for loss in several})
    leaders = sorted({loss.leader for loss in several})
    return topic, ranges(partitions), ranges(epochs), listed(leaders), *rest


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
    """The minimum that a replica knew to be committed, and at most all truncated offsets, if no
    more can be lost.
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
