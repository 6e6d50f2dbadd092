"""`strandline transaction ...`: the group of commands about transactions."""

import typer

from strandline_cli.commands.transaction.abort import abort
from strandline_cli.commands.transaction.describe import describe
from strandline_cli.commands.transaction.find_hanging import find_hanging
from strandline_cli.commands.transaction.list import list_transactions
from strandline_cli.shown.help_page import command_group


def transaction_app() -> typer.Typer:
    app = command_group(
        "Show transactions, and end those that hang.",
        "strandline transaction list --state Ongoing",
    )
    app.command("list")(list_transactions)
    app.command("describe")(describe)
    app.command("abort")(abort)
    app.command("find-hanging")(find_hanging)
    return app
