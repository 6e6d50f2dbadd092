"""One partition as an argument: `TOPIC:P`, or the old spelling with the number apart."""

from typing import Annotated

import typer

from strandline_cli.errors import UsageMistake
from strandline_cli.records.topic_partitions import parse_partition
from strandline_cli.shown.output import note

PartitionArgument = Annotated[
    str,
    typer.Argument(metavar="TOPIC:P", show_default=False, help="The partition, as in orders:0."),
]


def chosen_partition(text: str, number: int | None, old: str) -> tuple[str, int]:
    """The partition of `TOPIC:P`, or of a topic with its number apart, which was the old spelling.

    `old` names the old spelling's place of the number. Raises UsageMistake.
    """
    if number is None:
        return parse_partition(text)
    if ":" in text:
        raise UsageMistake(f"{text!r} names its partition: leave out {old} {number}".rstrip())
    note(f"the partition may be written as {text}:{number}, as in other commands")
    return text, number
