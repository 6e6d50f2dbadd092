"""`strandline chaos ...`: the group of commands that break a cluster to see whether it holds."""

import typer

from strandline_cli.commands.chaos_model import model
from strandline_cli.commands.chaos_mutants import mutants
from strandline_cli.commands.chaos_replay import replay
from strandline_cli.commands.chaos_shrink import shrink
from strandline_cli.commands.chaos_sim import sim


def chaos_app() -> typer.Typer:
    app = typer.Typer(
        help="Simulate clusters under faults, explore a small model, look for planted bugs.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("sim")(sim)
    app.command("model")(model)
    app.command("replay")(replay)
    app.command("shrink")(shrink)
    app.command("mutants")(mutants)
    return app
