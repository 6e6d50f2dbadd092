"""`strandline-spark example`: an example pipeline, to run unchanged or to start your own from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_spark.examples import NAMES, text_of

if TYPE_CHECKING:
    import argparse


def add_example(commands: Any) -> None:
    command = commands.add_parser(
        "example",
        help="print an example pipeline",
        description="Prints the pipeline.toml of an example. Its tables will be beside the file:"
        " strandline-spark example access > pipeline.toml",
    )
    command.add_argument("name", metavar="NAME", choices=NAMES, help=" or ".join(NAMES))
    command.set_defaults(run=_run, interrupted="nothing was changed")


def _run(arguments: argparse.Namespace) -> int:
    print(text_of(arguments.name), end="")  # noqa: T201 - the command's result
    return 0
