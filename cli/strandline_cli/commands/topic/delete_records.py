"""`strandline topic delete-records`."""

from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.commands.partition_argument import PartitionArgument, chosen_partition
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_done
from strandline_cli.shown.partitions import partition_text


def delete_records(
    place: PartitionArgument,
    before: Annotated[
        int,
        typer.Option(
            "--before",
            min=-1,
            metavar="OFFSET",
            help="The first offset to keep; -1: delete all committed records.",
        ),
    ],
    number: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="The old spelling of P.")
    ] = None,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Delete the records of a partition below an offset.

    Every replica deletes them.

    Example: strandline topic delete-records orders:0 --before 1000
    """
    from strandline import Admin, TopicPartition
    from strandline_cli.client import run_client

    topic, partition = chosen_partition(place, number, "--partition")
    target = find_target(bootstrap=bootstrap, directory=directory)
    where = TopicPartition(topic, partition)

    async def work() -> int:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            return (await admin.delete_records({where: before}))[where]

    low_watermark = run_client(work())
    document = {"topic": topic, "partition": partition, "low_watermark": low_watermark}
    line = f"{partition_text(topic, partition)} begins at offset {low_watermark}"
    emit_done(output, document, line)
    return 0
