"""`strandline replica ...`: the group of commands about single replicas."""

import typer

from strandline_cli.commands.replica.replica_truncate import truncate
from strandline_cli.shown.help_page import command_group


def replica_app() -> typer.Typer:
    app = command_group(
        "Decide about a single replica.",
        "strandline replica truncate orders:0 --broker 2 --to 1500",
    )
    app.command("truncate")(truncate)
    app.callback()(_group)
    return app


def _group() -> None:
    """Decide about a single replica, as its operator."""
