"""`strandline log ...`: the commands that read a log on disk, without a broker."""

import typer

from strandline_cli.commands.log.diff import diff
from strandline_cli.commands.log.dump import dump
from strandline_cli.commands.log.verify import verify


def log_app() -> typer.Typer:
    app = typer.Typer(
        help="Read logs on disk: dump, verify, compare. These commands never write.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("dump")(dump)
    app.command("verify")(verify)
    app.command("diff")(diff)
    return app
