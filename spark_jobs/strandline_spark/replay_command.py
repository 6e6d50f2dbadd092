"""`strandline-spark replay`: a range of a topic, read again into an empty table."""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from strandline_spark.errors import OptionError
from strandline_spark.find_cluster import add_cluster, find_bootstrap

if TYPE_CHECKING:
    import argparse


def add_replay(commands: Any) -> None:
    command = commands.add_parser(
        "replay",
        help="read a range of a topic into an empty table",
        description="Reads a range of a topic into an empty bronze table, in one commit. No job,"
        " checkpoint or other table is touched, and no JVM is started. FROM and TO are earliest,"
        ' latest, offsets of all partitions as {"TOPIC": {"0": 23}}, or a time with its zone as'
        " 2026-01-31T12:00:00Z: the first record at or after it.",
    )
    command.add_argument("topic", metavar="TOPIC")
    command.add_argument("--from", dest="start", metavar="FROM", required=True, help="the first")
    command.add_argument(
        "--to", metavar="TO", default="latest", help="where it ends, exclusive (default: latest)"
    )
    command.add_argument("--table", required=True, help="path of the new Delta table")
    add_cluster(command)
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.set_defaults(
        run=_run, interrupted="the table is as empty as before, or it has the whole range"
    )


def bounds(topic: str, start: str, end: str) -> dict[str, str]:
    """The two as options of the data source. Raises OptionError."""
    if "," in topic:
        raise OptionError(f"{topic!r} is not one topic: replay each into a table of its own")
    ends = _bound("--from", "starting", start) | _bound("--to", "ending", end)
    return {"subscribe": topic} | ends


def _bound(flag: str, side: str, text: str) -> dict[str, str]:
    if (flag, text) in (("--from", "latest"), ("--to", "earliest")):
        raise OptionError(f"{flag} {text}: there is nothing between; give a time or offsets")
    if text in ("earliest", "latest") or text.lstrip().startswith("{"):
        return {f"{side}Offsets": text}
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise OptionError(
            f"{flag} {text!r}: give earliest, latest, offsets as"
            ' {"TOPIC": {"0": 23}}, or a time with its zone as 2026-01-31T12:00:00Z'
        )
    return {f"{side}Timestamp": str(int(at.timestamp() * 1000))}


def _run(arguments: argparse.Namespace) -> int:
    from strandline_spark.option_values import local_path
    from strandline_spark.options import parse_options

    servers = find_bootstrap(arguments.bootstrap, arguments.dir, os.environ)
    given = bounds(arguments.topic, arguments.start, arguments.to)
    options = parse_options(given | {"bootstrap.servers": servers})
    path = os.path.abspath(local_path("--table", arguments.table))
    from strandline_spark.replay import replay

    began = time.monotonic()
    done = replay(options, path, _note)
    seconds = time.monotonic() - began
    if arguments.format == "json":
        document = {
            "table": path,
            "version": done.version,
            "rows": done.rows,
            "files": done.files,
            "size_bytes": done.size,
            "elapsed_s": round(seconds, 3),
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
    else:
        print(  # noqa: T201 - the command's result
            f"{done.rows:,} rows in {done.files} files ({done.size / 1e6:.1f} MB); {path} is at"
            f" version {done.version} ({seconds:.1f} s)"
        )
    return 0


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress
