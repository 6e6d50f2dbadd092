"""`strandline-spark lag`: a checkpoint's offsets against the topics' high watermarks."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.cluster.find_cluster import add_cluster, chosen_cluster

if TYPE_CHECKING:
    import argparse

    from strandline_spark.bronze.checkpoint_lag import PartitionLag

_COLUMNS: Final = (
    "topic",
    "partition",
    "done",
    "planned",
    "log_start",
    "high_watermark",
    "lag",
)
_NOBODY: Final = "how far it is behind cannot be said"


def add_lag(commands: Any) -> None:
    command = commands.add_parser(
        "lag",
        help="show the lag of a job's checkpoint behind its topics",
        description="Compares the offsets in the checkpoint of a job, running or ended, with the"
        " topics' high watermarks. The exit status is 1 if unread records are gone, or if the"
        " offsets mean other records now.",
    )
    command.add_argument("checkpoint", metavar="CHECKPOINT", help="path of Spark's checkpoint")
    add_cluster(command)
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.set_defaults(run=_run, interrupted="nothing was changed")


def _run(arguments: argparse.Namespace) -> int:
    from strandline_spark.bronze.checkpoint_lag import checkpoint_lag
    from strandline_spark.source.option_values import local_path, servers_of

    servers = servers_of(chosen_cluster(arguments, os.environ))
    path = os.path.abspath(local_path("CHECKPOINT", arguments.checkpoint))
    found = checkpoint_lag(path, servers)
    if arguments.format == "json":
        document = {
            "checkpoint": path,
            "lag": sum(max(0, one.lag) for one in found),
            "partitions": [asdict(one) for one in found],
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
    else:
        _print(found)
    return 1 if any(one.problems for one in found) else 0


def _print(found: list[PartitionLag]) -> None:
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for one in found:
        values = (getattr(one, name) for name in _COLUMNS)
        rows.append(tuple("-" if value == -1 else str(value) for value in values))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells))  # noqa: T201 - the command's result
    for one in found:
        for problem in one.problems:
            print(f"{one.topic}:{one.partition}: {problem}")  # noqa: T201 - the command's result
    unknown = sum(one.lag < 0 for one in found)
    rest = f", and {unknown} of {len(found)} partitions with an unknown lag" if unknown else ""
    behind = f"{sum(max(0, one.lag) for one in found):,} offsets behind"
    print(f"{behind}{rest}" if unknown < len(found) else _NOBODY)  # noqa: T201 - the result
