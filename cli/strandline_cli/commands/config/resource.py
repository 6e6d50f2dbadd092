"""`topic NAME`, `broker ID`, `broker --default` and `group ID`: the resource of a configuration."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from strandline_cli.errors import UsageMistake


class Kind(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"


KindArgument = Annotated[
    Kind,
    typer.Argument(metavar="topic|broker|group", help="Kind of the resource.", show_default=False),
]
_EXAMPLES: Final = {
    Kind.TOPIC: "topic orders",
    Kind.BROKER: "broker 1` or `broker --default",
    Kind.GROUP: "group billing",
}
NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME|ID]", help="A topic's name, or the id of a broker or consumer group."
    ),
]
DefaultOption = Annotated[
    bool, typer.Option("--default", help="All brokers, except where a broker has its own value.")
]

Resource = tuple[str, str | int]


def resource_of(kind: Kind, name: str | None, default: bool) -> Resource:
    """The client library's name of the resource. Raises UsageMistake if none, or two, are named."""
    if default:
        if kind is not Kind.BROKER or name is not None:
            raise UsageMistake("--default stands for all brokers: use it as `broker --default`")
        return (kind.value, "")
    if name is None or name == "":
        raise UsageMistake(f"which {kind.value} is meant? As in `{_EXAMPLES[kind]}`")
    if kind is Kind.BROKER and not name.isdecimal():
        raise UsageMistake(f"{name!r} is not a broker's id: use a number, as in `broker 1`")
    return (kind.value, name)


def named(resource: Resource) -> str:
    """The resource in words."""
    kind, name = resource
    return "all brokers" if name == "" else f"{kind} {name}"
