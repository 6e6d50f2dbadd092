"""`strandline leader ...`: the group of commands about partition leaders."""

import typer

from strandline_cli.commands.replica.leader_elect import elect
from strandline_cli.commands.replica.leader_losses import losses
from strandline_cli.commands.replica.leader_move import move


def leader_app() -> typer.Typer:
    app = typer.Typer(
        help="Choose the leaders of partitions, and show losses of unclean elections.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("elect")(elect)
    app.command("losses")(losses)
    app.command("move")(move)
    return app
