"""The `ID` of `start`, `stop`, `restart` and `kill`."""

from typing import Annotated

import typer

ProcessArgument = Annotated[
    str, typer.Argument(metavar="ID", help="A broker's id, or `controller`.", show_default=False)
]
