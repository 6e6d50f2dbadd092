"""`strandline transaction abort`."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
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
    from strandline.transaction_types import ProducerDescription


def abort(
    topic: Annotated[str, typer.Option("--topic", metavar="T", help="The topic.")],
    partition: Annotated[
        int, typer.Option("--partition", "-p", min=0, help="Number of the partition.")
    ],
    start_offset: Annotated[
        int,
        typer.Option(
            "--start-offset",
            min=0,
            metavar="N",
            help="First offset of the transaction, as `find-hanging` shows it.",
        ),
    ],
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Abort a hanging transaction in one partition.

    The partition's leader writes an abort marker. Readers of committed transactions then get the
    records behind it. Abort only what `find-hanging` shows: the records of a transaction that a
    coordinator still commits would be lost for them.

    Example: strandline transaction abort --topic orders -p 0 --start-offset 1500
    """
    from strandline import Admin, TopicPartition
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)
    place = TopicPartition(topic, partition)

    async def work() -> "ProducerDescription":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            producers = (await admin.describe_producers([place]))[place]
            found = producer_at(producers, start_offset, partition_text(*place))
            await admin.abort_transaction(
                place,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                coordinator_epoch=found.coordinator_epoch,
            )
            return found

    found = run_client(work())
    document = {
        "topic": topic,
        "partition": partition,
        "start_offset": start_offset,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
    }
    line = (
        f"the transaction of producer {found.producer_id} at offset {start_offset} of "
        f"{partition_text(*place)} is aborted"
    )
    emit_done(output, document, line)
    return 0


def producer_at(
    producers: "list[ProducerDescription]", start_offset: int, place: str
) -> "ProducerDescription":
    """The producer whose open transaction begins there. Raises CliError."""
    starts = {
        each.transaction_start_offset: each
        for each in producers
        if each.transaction_start_offset is not None
    }
    if start_offset not in starts:
        there = ", ".join(map(str, sorted(starts)))
        known = f"open ones begin at {there}" if there else "no transaction is open there"
        raise CliError(f"no transaction of {place} begins at offset {start_offset}: {known}")
    return starts[start_offset]
