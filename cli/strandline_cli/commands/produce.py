"""`strandline produce`: lines of standard input become records."""

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import UsageMistake
from strandline_cli.options import BootstrapOption, DirOption, Format, FormatOption, TopicArgument
from strandline_cli.shown.output import emit_json, note


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: TopicArgument,
    acks: Annotated[
        Acks,
        typer.Option(
            "--acks", help="Replicas that must have a record: none, the leader, all in sync."
        ),
    ] = Acks.ALL,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", "-K", help=r"Separator of key and value, as in `:` or `\t`."
        ),
    ] = None,
    compression: Annotated[Codec, typer.Option("--compression", "-z")] = Codec.NONE,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Send to this partition only.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.1, help="Seconds within which a record must be acknowledged."
        ),
    ] = 120.0,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Send each line of standard input; exit status 0 only if every one was acknowledged.

    Example: strandline produce orders --key-separator : < orders.txt
    """
    from strandline_cli.client import run_client
    from strandline_cli.records.line_format import unescape
    from strandline_cli.records.line_producer import LineProducer

    if key_separator == "":
        raise UsageMistake(
            "--key-separator is empty: give what parts key and value, or leave it out to send"
            " values without keys"
        )
    target = find_target(bootstrap=bootstrap, directory=directory)
    lines = LineProducer(
        bootstrap=target.bootstrap,
        topic=topic,
        acks=acks.value,
        compression=compression.value,
        partition=partition,
        separator=None if key_separator is None else unescape(key_separator),
        timeout_s=timeout,
    )
    interrupted = False
    try:
        run_client(lines.run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        interrupted = True
        lines.give_up()
    counts = lines.counts
    if output is Format.JSON:
        emit_json(counts.document())
    if interrupted:
        note(f"interrupted: {counts.told()}")
        raise KeyboardInterrupt
    if counts.all_acknowledged:
        return 0
    note(f"error: {counts.summary()}")
    return 1
