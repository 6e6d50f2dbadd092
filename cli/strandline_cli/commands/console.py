"""`strandline console`: the live view of a cluster, in a browser."""

from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import CliError
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
    """Show the replicas of a cluster as they move, in a browser, with the last 15 minutes.

    The console watches every broker and the controller. It stays until Ctrl-C. The address with the
    token, which faults need, stands on standard output.

    Example: strandline console --bootstrap 127.0.0.1:9092
    """
    if missing := what_is_missing("console"):
        raise CliError(missing)
    from strandline_console.main import ConsoleError, Options, run_console

    target = find_target(bootstrap=bootstrap, directory=directory)
    try:
        run_console(
            Options(
                bootstrap=target.bootstrap,
                host=host,
                port=port,
                wait_s=wait,
                bytes_max=memory_mb << 20,
            )
        )
    except ConsoleError as why:
        raise CliError(str(why)) from None
    return 0
