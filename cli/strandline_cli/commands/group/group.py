"""`strandline group ...`: the group of commands about consumer groups."""

import typer

from strandline_cli.commands.group.delete import delete
from strandline_cli.commands.group.delete_offsets import delete_offsets
from strandline_cli.commands.group.describe import describe
from strandline_cli.commands.group.lag import lag
from strandline_cli.commands.group.list import list_groups
from strandline_cli.commands.group.remove_members import remove_members
from strandline_cli.commands.group.reset import reset
from strandline_cli.shown.help_page import command_group


def group_app() -> typer.Typer:
    app = command_group(
        "Show, reset and delete consumer groups, and their lag.",
        "strandline group lag billing",
    )
    app.command("list")(list_groups)
    app.command("describe")(describe)
    app.command("lag")(lag)
    app.command("reset")(reset)
    app.command("remove-members")(remove_members)
    app.command("delete")(delete)
    app.command("delete-offsets")(delete_offsets)
    return app
