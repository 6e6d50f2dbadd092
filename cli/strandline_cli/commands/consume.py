"""`strandline consume`: records on standard output, as kcat prints them."""

from typing import Annotated

import typer

from strandline_cli.errors import UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    MaxDecompressedBytesOption,
    TopicArgument,
)
from strandline_cli.target import find_target
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX


def consume(
    topic: TopicArgument,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the first record there is.")
    ] = False,
    line_format: Annotated[
        str, typer.Option("-f", "--line-format", help=r"%t %p %o %k %v %T %h %s and \n \t.")
    ] = r"%v\n",
    exit_at_end: Annotated[
        bool,
        typer.Option("--exit-at-end", "-e", help="End where the log ended when this began."),
    ] = False,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="This partition only; may be repeated."),
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option("--offset", "-o", help="Start there; -N: N records before the end."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="End after so many records.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.1, help="With --exit-at-end: give up after such a silence."
        ),
    ] = 30.0,
    max_decompressed_bytes: MaxDecompressedBytesOption = DECOMPRESSED_BYTES_MAX,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Print records; new ones only, unless told where to start."""
    from strandline_cli.client import run_client
    from strandline_cli.line_format import compile_format
    from strandline_cli.record_json import json_line
    from strandline_cli.record_printer import RecordPrinter

    if from_beginning and offset is not None:
        raise UsageMistake("--from-beginning and --offset both say where to start: give one")
    to_bytes = json_line if output is Format.JSON else compile_format(line_format)
    target = find_target(bootstrap=bootstrap, directory=directory)
    printer = RecordPrinter(
        bootstrap=target.bootstrap,
        topic=topic,
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
