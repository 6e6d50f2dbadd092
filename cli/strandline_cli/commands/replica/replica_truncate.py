"""`strandline replica truncate`."""

from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.commands.replica.leader_elect import named
from strandline_cli.errors import UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_done


def truncate(
    partition: Annotated[
        str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False, help="As in orders:0.")
    ],
    broker: Annotated[
        int, typer.Option("--broker", min=0, metavar="ID", help="The broker that holds it.")
    ],
    to: Annotated[
        int,
        typer.Option(
            "--to",
            min=0,
            metavar="OFFSET",
            help="The offset that `strandline health` names: this one and those above it go.",
        ),
    ],
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Let a replica cut acknowledged records that it has refused to cut.

    A replica refuses when its leader lacks records that it knows to be committed, although no
    unclean election was announced: it keeps its log and stops. These records are given up with this
    command, unless another replica holds them; then the replica follows its leader again.
    """
    from strandline import Admin, TopicPartition
    from strandline_cli.client import run_client

    wanted = named(partition)
    if isinstance(wanted, str):
        raise UsageMistake(f"{partition!r} names no partition: give TOPIC:PARTITION, as orders:0")
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> None:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            await admin.allow_truncation(TopicPartition(*wanted), broker=broker, offset=to)

    run_client(work())
    topic, number = wanted
    document = {"topic": topic, "partition": number, "broker": broker, "to": to}
    emit_done(output, document, f"{topic} partition {number} on broker {broker} is cut at {to}")
    return 0
