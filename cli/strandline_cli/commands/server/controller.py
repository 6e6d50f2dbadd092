"""`strandline controller ...`: commands for the controller's store."""

import typer

from strandline_cli.commands.server.controller_restore import restore


def controller_app() -> typer.Typer:
    app = typer.Typer(
        help="Repair the controller's store.", no_args_is_help=True, rich_markup_mode=None
    )
    app.callback()(_group)
    app.command("restore")(restore)
    return app


def _group() -> None:
    """Repair the controller's store."""
