"""`strandline leader move`."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
    TopicArgument,
)
from strandline_cli.output import emit_done
from strandline_cli.target import find_target

if TYPE_CHECKING:
    from strandline.types import ElectionResult


def move(
    topic: TopicArgument,
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, show_default=False)],
    to: Annotated[
        int, typer.Option("--to", min=0, metavar="BROKER", help="Id of the broker that is to lead.")
    ],
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Have a partition led by another of its replicas in sync, without losing a record.

    It leads until the next election: the controller gives partitions back to their preferred
    leaders by itself, see auto.leader.rebalance.enable.
    """
    from strandline import Admin
    from strandline.errors import ElectionNotNeeded
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "ElectionResult":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            (result,) = await admin.move_leaders({(topic, partition): to})
        if result.error is not None and not isinstance(result.error, ElectionNotNeeded):
            raise result.error
        return result

    moved = run_client(work())
    document = {
        "topic": topic,
        "partition": partition,
        "leader": moved.leader,
        "moved": moved.error is None,
    }
    how = "is led by broker" if moved.error is None else "was led already by broker"
    emit_done(output, document, f"{topic} partition {partition} {how} {moved.leader}")
    return 0
