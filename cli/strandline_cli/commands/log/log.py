"""`strandline log ...`: look into a log on disk, without a broker."""

import typer

from strandline_cli.commands.log.diff import diff
from strandline_cli.commands.log.dump import dump
from strandline_cli.commands.log.verify import verify


def log_app() -> typer.Typer:
    app = typer.Typer(
        help="Look into logs on disk: dump, verify, compare. Nothing is ever written.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("dump")(dump)
    app.command("verify")(verify)
    app.command("diff")(diff)
    return app
