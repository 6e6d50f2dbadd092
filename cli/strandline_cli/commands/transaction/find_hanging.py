"""`strandline transaction find-hanging`."""

import dataclasses
import time
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.commands.transaction.describe import time_text
from strandline_cli.errors import UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.planning.hanging import Hanging, hanging_in, suspects
from strandline_cli.shown.output import emit_json, emit_table, note
from strandline_cli.shown.partitions import partition_text

if TYPE_CHECKING:
    from strandline import Admin, TopicPartition

_COLUMNS = ("partition", "start offset", "producer id", "epoch", "last record", "transactional id")


def find_hanging(
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="T", help="Only this topic; all by default.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition of it.")
    ] = None,
    max_transaction_timeout: Annotated[
        float,
        typer.Option(
            "--max-transaction-timeout",
            min=0,
            metavar="S",
            help="Seconds after which every transaction is ended: the brokers'"
            " transaction.max.timeout.ms.",
        ),
    ] = 900.0,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Find transactions that no coordinator will end.

    Such a transaction is open in a partition for too long, and its coordinator does not have the
    partition in an ongoing transaction. Readers of committed transactions wait at its start.
    `strandline transaction abort` ends it.

    Example: strandline transaction find-hanging --topic orders
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    if partition is not None and topic is None:
        raise UsageMistake("--partition goes with --topic: name the topic")
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> list[Hanging]:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            places = await _places(admin, topic, partition)
            older_ms = time.time() * 1000 - max_transaction_timeout * 1000
            return await _found(admin, places, int(older_ms))

    found = run_client(work())
    if output is Format.JSON:
        emit_json([dataclasses.asdict(each) for each in found])
        return 0
    rows = [
        (
            partition_text(each.topic, each.partition),
            each.start_offset,
            each.producer_id,
            each.producer_epoch,
            time_text(each.last_timestamp_ms),
            each.transactional_id or "unknown",
        )
        for each in found
    ]
    emit_table(_COLUMNS, rows)
    if not found:
        note("no transaction hangs")
    return 0


async def _places(
    admin: "Admin", topic: str | None, partition: int | None
) -> "list[TopicPartition]":
    from strandline import TopicPartition

    topics = await admin.describe_topics(
        None if topic is None else [topic], include_internal=topic is None
    )
    return [
        TopicPartition(name, each.partition)
        for name, described in sorted(topics.items())
        for each in described.partitions
        if partition is None or each.partition == partition
    ]


async def _found(admin: "Admin", places: "list[TopicPartition]", older_ms: int) -> list[Hanging]:
    """The hanging transactions in these partitions."""
    open_ones = suspects(await admin.describe_producers(places), older_ms)
    if not open_ones:
        return []
    ids = sorted({producer.producer_id for _, producer in open_ones})
    listed = {
        each.producer_id: each.transactional_id
        for each in await admin.list_transactions(producer_ids=ids)
    }
    described = await admin.describe_transactions(listed.values())
    return hanging_in(open_ones, listed, described)
