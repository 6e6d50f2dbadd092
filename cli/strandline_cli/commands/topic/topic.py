"""`strandline topic ...`: the group of commands about topics."""

import typer

from strandline_cli.commands.topic.alter import alter
from strandline_cli.commands.topic.create import create
from strandline_cli.commands.topic.delete import delete
from strandline_cli.commands.topic.delete_records import delete_records
from strandline_cli.commands.topic.describe import describe
from strandline_cli.commands.topic.list import list_topics


def topic_app() -> typer.Typer:
    app = typer.Typer(
        help="Create, list, describe, alter and delete topics.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("create")(create)
    app.command("list")(list_topics)
    app.command("describe")(describe)
    app.command("alter")(alter)
    app.command("delete")(delete)
    app.command("delete-records")(delete_records)
    return app
