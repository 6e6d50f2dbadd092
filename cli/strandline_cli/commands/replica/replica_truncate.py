"""`strandline replica truncate`."""

from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.commands.partition_argument import PartitionArgument
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.records.topic_partitions import parse_partition
from strandline_cli.shown.output import emit_done
from strandline_cli.shown.partitions import partition_text


def truncate(
    partition: PartitionArgument,
    broker: Annotated[
        int,
        typer.Option(
            "--broker", min=0, metavar="ID", help="Id of the broker that holds the replica."
        ),
    ],
    to: Annotated[
        int,
        typer.Option(
            "--to",
            min=0,
            metavar="OFFSET",
            help="The offset in `strandline health`; it and all above are removed.",
        ),
    ],
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Let a replica make a truncation that it has refused.

    A replica refuses if its leader lacks records that it knows to be committed, without an
    announced unclean election. It then keeps its log and stops. This command gives these records
    up, unless another replica holds them. The replica then follows its leader again.

    Example: strandline replica truncate orders:0 --broker 2 --to 1500
    """
    from strandline import Admin, TopicPartition
    from strandline_cli.client import run_client

    wanted = parse_partition(partition)
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> None:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            await admin.allow_truncation(TopicPartition(*wanted), broker=broker, offset=to)

    run_client(work())
    topic, number = wanted
    document = {"topic": topic, "partition": number, "broker": broker, "to": to}
    emit_done(
        output, document, f"{partition_text(topic, number)} on broker {broker} is cut at {to}"
    )
    return 0
