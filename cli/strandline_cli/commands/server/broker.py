"""`strandline broker`: commands about brokers that join and leave."""

import typer

from strandline_cli.commands.server.broker_decommission import decommission


def broker_app() -> typer.Typer:
    app = typer.Typer(
        help="Remove brokers from the cluster.", no_args_is_help=True, rich_markup_mode=None
    )
    app.command("decommission")(decommission)
    return app
