"""`strandline chaos ...`: the group of commands that break a cluster to test it."""

import typer

from strandline_cli.commands.chaos.live import live
from strandline_cli.commands.chaos.model import model
from strandline_cli.commands.chaos.mutants import mutants
from strandline_cli.commands.chaos.replay import replay
from strandline_cli.commands.chaos.shrink import shrink
from strandline_cli.commands.chaos.sim import sim
from strandline_cli.commands.chaos.transfers import transfers
from strandline_cli.errors import CliError
from strandline_cli.shown.help_page import command_group


def chaos_app() -> typer.Typer:
    app = command_group(
        "Break real or simulated clusters, and judge the outcome.",
        "strandline chaos live --minutes 5",
        callback=_needs_checkout,
    )
    app.command("live")(live)
    app.command("transfers")(transfers)
    app.command("sim")(sim)
    app.command("model")(model)
    app.command("replay")(replay)
    app.command("shrink")(shrink)
    app.command("mutants")(mutants)
    return app


def _needs_checkout(context: typer.Context) -> None:
    """The refusal in a wheel, which does not include the simulator: `live` and
    `transfers` need none.
    """
    if context.invoked_subcommand in ("live", "transfers"):
        return
    try:
        import strandline_proof  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "strandline_proof":
            raise
        raise CliError(
            "the package strandline_proof is missing: simulator, small model and planted bugs are"
            " not in an installed strandline but in proof/ of its repository; run `make setup` in"
            " a checkout, and .venv/bin/strandline there"
        ) from error
