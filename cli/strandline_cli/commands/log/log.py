"""`strandline log ...`: the commands that read a log on disk, without a broker."""

import typer

from strandline_cli.commands.log.diff import diff
from strandline_cli.commands.log.dump import dump
from strandline_cli.commands.log.verify import verify
from strandline_cli.shown.help_page import command_group


def log_app() -> typer.Typer:
    app = command_group(
        "Read logs on disk, and never write: dump, verify, compare.",
        "strandline log verify .strandline/broker-1",
    )
    app.command("dump")(dump)
    app.command("verify")(verify)
    app.command("diff")(diff)
    return app
