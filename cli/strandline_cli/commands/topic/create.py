"""`strandline topic create`."""

from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
    TopicArgument,
)
from strandline_cli.shown.output import emit_done


def create(
    topic: TopicArgument,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            help="Number of partitions. Default: the controller's num.partitions.",
        ),
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="Replicas of each partition. Default: default.replication.factor.",
        ),
    ] = -1,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="Set a key of the topic, as in min.insync.replicas=2.",
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Create a topic.

    Example: strandline topic create orders -p 6 --config retention.ms=3600000
    """
    from strandline import Admin, NewTopic
    from strandline_cli.client import run_client
    from strandline_cli.cluster.overrides import parse_pairs

    target = find_target(bootstrap=bootstrap, directory=directory)
    new = NewTopic(topic, partitions, replication_factor, config=parse_pairs(config or []))

    async def work() -> dict[str, object]:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            (created,) = await admin.create_topics([new])
        return {
            "name": created.name,
            "partitions": created.partitions,
            "replication_factor": created.replication_factor,
        }

    made = run_client(work())
    line = "created {name}: partitions {partitions}, replication factor {replication_factor}"
    emit_done(output, made, line.format(**made))
    return 0
