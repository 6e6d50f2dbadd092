"""`strandline leader ...`: the group of commands about partition leaders."""

import typer

from strandline_cli.commands.replica.leader_elect import elect
from strandline_cli.commands.replica.leader_losses import losses
from strandline_cli.commands.replica.leader_move import move
from strandline_cli.shown.help_page import command_group


def leader_app() -> typer.Typer:
    app = command_group(
        "Choose the leaders of partitions, and show their losses.",
        "strandline leader elect --all",
    )
    app.command("elect")(elect)
    app.command("losses")(losses)
    app.command("move")(move)
    return app
