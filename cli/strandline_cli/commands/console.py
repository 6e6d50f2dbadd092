"""`strandline console`: the live view of a cluster, in a browser."""

import os
from typing import Annotated

import typer

from strandline_cli.cluster.console_start import TOKEN_VARIABLE
from strandline_cli.cluster.target import find_target
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import BootstrapOption, DirOption
from strandline_runtime.extras import what_is_missing


def console(
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="Address to listen on. Beyond loopback the console is read-only, without a login.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="Port to listen on; 0: a free one.")
    ] = 8080,
    wait: Annotated[
        float, typer.Option("--wait", min=0.1, help="Seconds in which a broker has to answer.")
    ] = 10,
    compose: Annotated[
        bool,
        typer.Option("--compose", help="The cluster of the docker-compose.yml here, with faults."),
    ] = False,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            help="Show the tables of this pipeline.toml, or of the one in this folder; may be given"
            " several times. Needs the spark extra, but no Spark.",
        ),
    ] = None,
    memory_mb: Annotated[
        int,
        typer.Option(
            "--memory-mb",
            min=16,
            max=65_536,
            help="Limit of the recording. It keeps 15 minutes, or less if they do not fit.",
        ),
    ] = 256,
) -> int:
    """Show a cluster live, in a browser, with the last 15 minutes.

    The console watches every broker and the controller. It stays until Ctrl-C. The address with the
    token, which faults need, stands on standard output.

    Example: strandline console --bootstrap 127.0.0.1:9092
    """
    if missing := what_is_missing("console"):
        raise CliError(missing)
    from strandline_console.main import (
        ConsoleError,
        Options,
        compose_addresses,
        pipeline_files,
        run_console,
    )

    if compose and (bootstrap is not None or directory is not None):
        raise UsageMistake("--compose names a cluster: leave out --bootstrap and --dir")
    target = None if compose else find_target(bootstrap=bootstrap, directory=directory)
    local = None if target is None else target.local
    try:
        run_console(
            Options(
                bootstrap=compose_addresses() if target is None else target.bootstrap,
                directory=None if local is None else local.directory,
                compose=compose,
                token=os.environ.pop(TOKEN_VARIABLE, None) or None,  # no server gets it
                host=host,
                port=port,
                wait_s=wait,
                bytes_max=memory_mb << 20,
                pipelines=pipeline_files(pipeline or ()),
            )
        )
    except ConsoleError as why:
        raise CliError(str(why)) from None
    return 0
