"""`strandline topic list`."""

from typing import Annotated, Any

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_json, emit_table


def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="List the cluster's internal topics too.")
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """List the topics with the number of their partitions.

    Example: strandline topic list
    """
    from strandline import Admin
    from strandline_cli.client import run_client
    from strandline_proto.ids import topic_id_text

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> list[dict[str, Any]]:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            topics = (await admin.describe_topics(include_internal=internal)).values()
        return [
            {
                "name": t.name,
                "topic_id": topic_id_text(t.topic_id),
                "partitions": len(t.partitions),
                "replication_factor": max((len(p.replicas) for p in t.partitions), default=0),
            }
            for t in sorted(topics, key=lambda t: t.name)
        ]

    topics = run_client(work())
    if output is Format.JSON:
        emit_json(topics)
    else:
        rows = [(t["name"], t["partitions"], t["replication_factor"]) for t in topics]
        emit_table(("topic", "partitions", "replication_factor"), rows)
    return 0
