"""`topic NAME`, `broker ID` and `broker --default`: whose configuration is meant."""

from enum import StrEnum
from typing import Annotated

import typer

from strandline_cli.errors import UsageMistake


class Kind(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"


KindArgument = Annotated[
    Kind, typer.Argument(metavar="topic|broker", help="Whose configuration.", show_default=False)
]
NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="[NAME|ID]", help="A topic's name or a broker's id."),
]
DefaultOption = Annotated[
    bool, typer.Option("--default", help="All brokers, as far as not altered for one of them.")
]

Resource = tuple[str, str | int]


def resource_of(kind: Kind, name: str | None, default: bool) -> Resource:
    """What the client library calls it. Raises UsageMistake for what names nothing, or two."""
    if default:
        if kind is Kind.TOPIC or name is not None:
            raise UsageMistake("--default stands for all brokers: use it as `broker --default`")
        return (kind.value, "")
    if name is None or name == "":
        example = "topic orders" if kind is Kind.TOPIC else "broker 1` or `broker --default"
        raise UsageMistake(f"which {kind.value} is meant? As in `{example}`")
    if kind is Kind.BROKER and not name.isdecimal():
        raise UsageMistake(f"{name!r} is not a broker's id: use a number, as in `broker 1`")
    return (kind.value, name)


def named(resource: Resource) -> str:
    """The resource in words."""
    kind, name = resource
    return "all brokers" if name == "" else f"{kind} {name}"
