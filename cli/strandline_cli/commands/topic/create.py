"""`strandline topic create`."""

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Final

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
from strandline_cli.shown.output import emit_done, note

if TYPE_CHECKING:
    from strandline import Admin, NewTopic

_POLL_S: Final = 0.5


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
    if_not_exists: Annotated[
        bool,
        typer.Option("--if-not-exists", help="Keep a topic of this name as it is, with status 0."),
    ] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, help="Seconds to wait for a cluster that is still starting."),
    ] = 0,
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
    from strandline_local.overrides import parse_pairs

    target = find_target(bootstrap=bootstrap, directory=directory)
    new = NewTopic(topic, partitions, replication_factor, config=parse_pairs(config or []))

    async def work() -> dict[str, object]:
        until = time.monotonic() + wait
        noted = ""
        while True:
            try:
                async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
                    return await create_topic(admin, new, if_not_exists=if_not_exists)
            except _passing() as why:
                if time.monotonic() >= until:
                    raise
                # Not its text, which names other addresses in each attempt.
                if type(why).__name__ != noted:
                    noted = type(why).__name__
                    note(f"waiting up to {wait:.0f} s for a cluster that can hold {topic}: {why}")
                await asyncio.sleep(_POLL_S)

    made = run_client(work())
    done = "created" if made["created"] else "already exists, kept:"
    line = "{name}: partitions {partitions}, replication factor {replication_factor}"
    emit_done(output, made, f"{done} {line.format(**made)}")
    return 0


async def create_topic(
    admin: "Admin", new: "NewTopic", *, if_not_exists: bool
) -> dict[str, object]:
    """Creates the topic, or describes the present one if that is permitted."""
    from strandline.errors import TopicAlreadyExists

    try:
        (made,) = await admin.create_topics([new])
    except TopicAlreadyExists:
        if not if_not_exists:
            raise
        partitions = (await admin.describe_topics([new.name]))[new.name].partitions
        factor = max((len(p.replicas) for p in partitions), default=0)
        return _document(new.name, len(partitions), factor, created=False)
    return _document(made.name, made.partitions, made.replication_factor, created=True)


def _document(name: str, partitions: int, factor: int, *, created: bool) -> dict[str, object]:
    return {
        "name": name,
        "partitions": partitions,
        "replication_factor": factor,
        "created": created,
    }


def _passing() -> tuple[type[Exception], ...]:
    """The errors of a cluster whose controller or brokers are not all there yet."""
    from strandline import errors

    return (
        errors.OperationTimedOut,
        errors.BrokerUnreachable,
        errors.NotController,
        errors.InvalidReplicationFactor,
    )
