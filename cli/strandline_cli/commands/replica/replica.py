"""`strandline replica ...`: the group of commands about single replicas."""

import typer

from strandline_cli.commands.replica.replica_truncate import truncate


def replica_app() -> typer.Typer:
    app = typer.Typer(
        help="Decide about a single replica.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("truncate")(truncate)
    app.callback()(_group)
    return app


def _group() -> None:
    """Decide about a single replica, as its operator."""
