"""`strandline consume`: records on standard output, as kcat prints them."""

import asyncio
from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    MaxDecompressedBytesOption,
)
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)],
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Join this group, continue at its offsets, and commit printed records.",
        ),
    ] = None,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="Start at the first record; with --group, where nothing is committed.",
        ),
    ] = False,
    line_format: Annotated[
        str, typer.Option("-f", "--line-format", help=r"%t %p %o %k %v %T %h %s and \n \t.")
    ] = r"%v\n",
    exit_at_end: Annotated[
        bool,
        typer.Option("--exit-at-end", "-e", help="End at the log's end at the time of the start."),
    ] = False,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Read this partition only; may be repeated."),
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option("--offset", "-o", help="Start at this offset; -N: N records before the end."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", min=1, help="Number of records after which to end."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=0.1,
            help="With --exit-at-end: seconds without a record until an error.",
        ),
    ] = 30.0,
    max_decompressed_bytes: MaxDecompressedBytesOption = DECOMPRESSED_BYTES_MAX,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Print records; only new ones, unless a start is given.

    With --group, the partitions are shared with the group's other members. Ctrl-C and SIGTERM leave
    the group after the printed records are committed.

    Example: strandline consume orders --from-beginning --exit-at-end
    """
    from strandline_cli.client import run_client
    from strandline_cli.records.group_printer import GroupPrinter
    from strandline_cli.records.line_format import compile_format
    from strandline_cli.records.record_json import json_line
    from strandline_cli.records.record_printer import RecordPrinter

    if from_beginning and offset is not None:
        raise UsageMistake("--from-beginning and --offset both say where to start: give one")
    to_bytes = json_line if output is Format.JSON else compile_format(line_format)
    if group is not None:
        if partitions is not None or offset is not None:
            raise UsageMistake(
                "--partition and --offset do not go with --group: the group shares out the"
                " partitions, and `strandline group reset` sets its positions"
            )
        member = GroupPrinter(
            bootstrap=find_target(bootstrap=bootstrap, directory=directory).bootstrap,
            group=group,
            topics=topics,
            to_bytes=to_bytes,
            from_beginning=from_beginning,
            exit_at_end=exit_at_end,
            count=count,
            timeout_s=timeout,
            max_decompressed_bytes=max_decompressed_bytes,
        )
        try:
            run_client(member.run())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        return 0
    if len(topics) > 1:
        raise UsageMistake(f"{len(topics)} topics are read as a group: name one with --group GROUP")
    target = find_target(bootstrap=bootstrap, directory=directory)
    printer = RecordPrinter(
        bootstrap=target.bootstrap,
        topic=topics[0],
        to_bytes=to_bytes,
        from_beginning=from_beginning,
        offset=offset,
        partitions=partitions,
        exit_at_end=exit_at_end,
        count=count,
        timeout_s=timeout,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    run_client(printer.run())
    return 0
