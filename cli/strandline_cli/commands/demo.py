"""`strandline demo ...`: a separate cluster, a fault, and proof of the outcome."""

from pathlib import Path
from typing import Annotated, Final

import typer

from strandline_cli.interrupts import signals_as_interrupt
from strandline_cli.options import Format, FormatOption
from strandline_cli.shown.help_page import command_group

_COMPARING: Final = ("numpy", "pyarrow")
"""The packages needed to compare a topic with the acknowledged records."""


def demo_app() -> typer.Typer:
    app = command_group(
        "Demonstrations on real processes; each cleans up.",
        "strandline demo flights --small",
    )
    app.command("flights")(flights)
    app.command("kip101")(kip101)
    return app


def flights(
    source: Annotated[
        Path | None,
        typer.Option(
            "--input", help="Use the lines of this file instead of the flights.", metavar="FILE"
        ),
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="Use the first 20,000 lines only.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Ingest with Spark, or only read the topic.")
    ] = True,
    output: FormatOption = Format.TABLE,
) -> int:
    """Kill a leader in a stream; no acknowledged record is lost.

    Example: strandline demo flights --small
    """
    _require(None if spark else _COMPARING)
    from rich.console import Console

    from strandline_cli.demo.flights import FlightsDemo
    from strandline_cli.demo.flights_input import find_input

    found = find_input(source, small=small)
    as_json = output is Format.JSON
    console = Console(stderr=as_json)
    with signals_as_interrupt():
        return FlightsDemo(found, with_spark=spark, console=console, as_json=as_json).run()


def kip101(output: FormatOption = Format.TABLE) -> int:
    """Show two losses of truncating to the high watermark.

    The cure is shown too.

    Example: strandline demo kip101
    """
    _require(_COMPARING)
    from rich.console import Console

    from strandline_cli.demo.kip101 import Kip101Demo

    as_json = output is Format.JSON
    with signals_as_interrupt():
        return Kip101Demo(Console(stderr=as_json), as_json=as_json).run()


def _require(modules: tuple[str, ...] | None) -> None:
    """Demos compare what is there in the end; what that needs is asked for before. Raises CliError
    if some of these `modules` is not installed; None: of all that Spark's jobs need.
    """
    from strandline_cli.errors import CliError
    from strandline_runtime.extras import what_is_missing

    if missing := what_is_missing("spark", of=modules):
        raise CliError(missing)
