"""`strandline leader move`."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.commands.partition_argument import PartitionArgument, chosen_partition
from strandline_cli.errors import CliError
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_done
from strandline_cli.shown.partitions import partition_text

if TYPE_CHECKING:
    from strandline import Admin
    from strandline.types import ElectionResult


def move(
    place: PartitionArgument,
    to: Annotated[
        int, typer.Option("--to", min=0, metavar="BROKER", help="Id of the new leader's broker.")
    ],
    number: Annotated[
        int | None, typer.Argument(metavar="[P]", min=0, show_default=False, hidden=True)
    ] = None,
    prefer: Annotated[
        bool,
        typer.Option(
            "--prefer", help="Make it the preferred leader, so that it remains the leader."
        ),
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Make another in-sync replica the leader; no record is lost.

    The replica leads until the next election. The controller gives partitions back to their
    preferred leaders by itself, see auto.leader.rebalance.enable. With --prefer the replica becomes
    the preferred leader; the replicas stay the same, in another order.

    Example: strandline leader move orders:0 --to 2
    """
    from strandline import Admin
    from strandline.errors import ElectionNotNeeded
    from strandline_cli.client import run_client

    topic, partition = chosen_partition(place, number, "the number")
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "ElectionResult":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            (result,) = await admin.move_leaders({(topic, partition): to})
            if result.error is not None and not isinstance(result.error, ElectionNotNeeded):
                raise result.error
            if prefer:
                await _prefer(admin, topic, partition, to)
        return result

    moved = run_client(work())
    document = {
        "topic": topic,
        "partition": partition,
        "leader": moved.leader,
        "moved": moved.error is None,
        "preferred": prefer,
    }
    how = "is led by broker" if moved.error is None else "was led already by broker"
    line = f"{partition_text(topic, partition)} {how} {moved.leader}"
    emit_done(output, document, f"{line}, its preferred leader" if prefer else line)
    return 0


async def _prefer(admin: "Admin", topic: str, partition: int, leader: int) -> None:
    """The same replicas, with this one first."""
    where = (topic, partition)
    if await admin.list_partition_reassignments([where]):
        raise CliError(
            f"broker {leader} leads {partition_text(topic, partition)}, but cannot be made its"
            " preferred leader while its replicas are being moved: wait for the reassignment,"
            " then repeat"
        )
    described = (await admin.describe_topics([topic]))[topic].partitions[partition]
    replicas = [leader, *(b for b in described.replicas if b != leader)]
    (changed,) = await admin.alter_partition_reassignments({where: replicas})
    if changed.error is not None:
        raise changed.error
