"""`strandline config ...`: the configuration of topics, brokers and consumer groups."""

import typer

from strandline_cli.commands.config.alter import alter
from strandline_cli.commands.config.describe import describe


def config_app() -> typer.Typer:
    app = typer.Typer(
        help="Describe and alter the configuration of topics, brokers and consumer groups.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("describe")(describe)
    app.command("alter")(alter)
    return app
