"""`strandline topic alter`."""

from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
    TopicArgument,
)
from strandline_cli.shown.output import emit_done, note, note_pending


def alter(
    topic: TopicArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, help="New number of partitions, above the current one."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="Set a key to a value, as `config alter` does; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the request, and change nothing.")
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Give a topic more partitions, or another configuration.

    The topic may be in use.

    Records stay in their partitions. A key may map to another partition afterwards, so its newer
    records may be in another partition than its older ones.

    Example: strandline topic alter orders --partitions 12
    """
    from strandline import Admin, ConfigChange
    from strandline_cli.client import run_client
    from strandline_local.overrides import parse_pairs

    to_set = parse_pairs(config or [])
    if partitions is None and not to_set:
        raise UsageMistake("nothing to alter: use --partitions N or --config KEY=VALUE")
    target = find_target(bootstrap=bootstrap, directory=directory)
    changes = [ConfigChange(key, value) for key, value in to_set.items()]

    async def work() -> tuple[int | None, list[int]]:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            before, pending = None, []
            if changes and partitions is not None:
                # All refusals come before any change.
                await admin.create_partitions({topic: partitions}, validate_only=True)
            if changes:
                pending = await admin.incremental_alter_configs(
                    {("topic", topic): changes}, validate_only=dry_run
                )
            if partitions is not None:
                counts = await admin.create_partitions({topic: partitions}, validate_only=dry_run)
                before = counts[topic]
        return before, pending

    before, pending = run_client(work())
    note_pending(pending)
    if before is not None and not dry_run:
        note("keys may belong to other partitions from now on; records stay where they are")
    said = [f"{key}={value}" for key, value in to_set.items()]
    if before is not None:
        said.append(f"{partitions} partitions, {before} before")
    document = {
        "topic": topic,
        "partitions": partitions,
        "partitions_before": before,
        "set": to_set,
        "dry_run": dry_run,
        "pending_brokers": pending,
    }
    done = "would alter" if dry_run else "altered"
    emit_done(output, document, f"{done} topic {topic}: {', '.join(said)}")
    return 0
