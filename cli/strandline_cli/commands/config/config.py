"""`strandline config ...`: the configuration of topics, brokers and consumer groups."""

import typer

from strandline_cli.commands.config.alter import alter
from strandline_cli.commands.config.describe import describe
from strandline_cli.shown.help_page import command_group


def config_app() -> typer.Typer:
    app = command_group(
        "Show and alter the configuration of a running cluster.",
        "strandline config describe topic orders",
    )
    app.command("describe")(describe)
    app.command("alter")(alter)
    return app
