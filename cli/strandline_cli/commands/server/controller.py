"""`strandline controller ...`: commands for the controller's store."""

import typer

from strandline_cli.commands.server.controller_restore import restore
from strandline_cli.shown.help_page import command_group


def controller_app() -> typer.Typer:
    app = command_group("Repair the controller's store.", "strandline controller restore --dry-run")
    app.callback()(_group)
    app.command("restore")(restore)
    return app


def _group() -> None:
    """Repair the controller's store."""
