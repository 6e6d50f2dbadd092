"""`strandline group delete-offsets`."""

from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    GroupArgument,
    TimeoutOption,
)
from strandline_cli.records.topic_partitions import parse_topics
from strandline_cli.shown.output import emit_done


def delete_offsets(
    group: GroupArgument,
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic",
            metavar="TOPIC[:P,...]",
            help="Topic whose offsets are deleted; may be repeated.",
        ),
    ],
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Delete committed offsets of topics that no member reads.

    Example: strandline group delete-offsets billing --topic orders
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    wanted = parse_topics(topic)
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> list[tuple[str, int]]:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            committed = await admin.list_group_offsets(group)
            await admin.delete_group_offsets(
                group, [name if number is None else (name, number) for name, number in wanted]
            )
            return [
                (p.topic, p.partition)
                for p in sorted(committed)
                if (p.topic, None) in wanted or (p.topic, p.partition) in wanted
            ]

    deleted = run_client(work())
    document = {"group": group, "deleted": [{"topic": t, "partition": p} for t, p in deleted]}
    count = f"{len(deleted)} offset{'' if len(deleted) == 1 else 's'}"
    emit_done(output, document, f"forgot {count} of group {group}")
    return 0
