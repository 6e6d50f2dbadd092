"""`strandline topic ...`: the group of commands about topics."""

import typer

from strandline_cli.commands.topic.alter import alter
from strandline_cli.commands.topic.create import create
from strandline_cli.commands.topic.delete import delete
from strandline_cli.commands.topic.delete_records import delete_records
from strandline_cli.commands.topic.describe import describe
from strandline_cli.commands.topic.list import list_topics
from strandline_cli.shown.help_page import command_group


def topic_app() -> typer.Typer:
    app = command_group(
        "Create, list, describe, alter and delete topics.",
        "strandline topic create orders --partitions 6",
    )
    app.command("create")(create)
    app.command("list")(list_topics)
    app.command("describe")(describe)
    app.command("alter")(alter)
    app.command("delete")(delete)
    app.command("delete-records")(delete_records)
    return app
