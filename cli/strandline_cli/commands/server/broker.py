"""`strandline broker`: commands about brokers that join and leave."""

import typer

from strandline_cli.commands.server.broker_decommission import decommission
from strandline_cli.shown.help_page import command_group


def broker_app() -> typer.Typer:
    app = command_group(
        "Remove brokers from the cluster.",
        "strandline broker decommission 4 --shutdown",
    )
    app.command("decommission")(decommission)
    return app
