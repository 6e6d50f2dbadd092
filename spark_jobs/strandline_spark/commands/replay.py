"""`strandline-spark replay`: a range of a topic, read again into an empty table."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.cluster.find_cluster import add_cluster, chosen_cluster
from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    import argparse

    from strandline_spark.source.options import SourceOptions

_FLAGS: Final = {"starting": "--from", "ending": "--to"}


def add_replay(commands: Any) -> None:
    command = commands.add_parser(
        "replay",
        help="read a range of a topic into an empty table",
        description="Reads a range of a topic into an empty bronze table, in one commit."
        " Touches no job, checkpoint or other table, and starts no JVM. FROM and TO are earliest,"
        ' latest, offsets of all partitions like {"TOPIC": {"0": 23}}, or a time with its zone like'
        " 2026-01-31T12:00:00Z. A time means the first record at or after it.",
    )
    command.add_argument("topic", metavar="TOPIC")
    command.add_argument(
        "--from", dest="start", metavar="FROM", required=True, help="start of the range"
    )
    command.add_argument(
        "--to", metavar="TO", default="latest", help="end of the range, exclusive (default: latest)"
    )
    command.add_argument("--table", required=True, help="path of the new Delta table")
    add_cluster(command)
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.set_defaults(
        run=_run, interrupted="the table is as empty as before, or it has the whole range"
    )


def options_of(servers: str, topic: str, start: str, end: str) -> SourceOptions:
    """Returns the options of a batch query. Raises OptionError."""
    from strandline_spark.source.option_values import NoOffset
    from strandline_spark.source.options import parse_options

    if "," in topic or not topic.strip():
        raise OptionError(f"{topic!r} is not one topic: replay each into a table of its own")
    given = {"bootstrap.servers": servers, "subscribe": topic}
    first, last = _bound("--from", start), _bound("--to", end)
    bounds = {"startingOffsets": first, "endingOffsets": last}
    options = parse_options(
        given | {name: at for name, at in bounds.items() if isinstance(at, str)}
    )
    return replace(
        options,
        starting_times=first if isinstance(first, int) else None,
        ending_times=last if isinstance(last, int) else None,
        # Nothing is read of a partition whose last record is older.
        no_offset=NoOffset.LATEST,
    )


def _in_flags(message: str) -> str:
    """The message of an OptionError, which names options of the data source, with the flags."""
    return re.sub(
        r"\b(starting|ending)(?:Offsets|Timestamp)\b", lambda found: _FLAGS[found[1]], message
    )


def _bound(flag: str, text: str) -> str | int:
    """Returns words and offsets unchanged, and a time in milliseconds."""
    if (flag, text) in (("--from", "latest"), ("--to", "earliest")):
        raise OptionError(f"{flag} {text}: there is nothing between; give a time or offsets")
    if text in ("earliest", "latest") or text.lstrip().startswith("{"):
        return text
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise OptionError(
            f"{flag} {text!r}: give earliest, latest, offsets as"
            ' {"TOPIC": {"0": 23}}, or a time with its zone as 2026-01-31T12:00:00Z'
        )
    return max(0, int(at.timestamp() * 1000))


def _run(arguments: argparse.Namespace) -> int:
    from strandline_spark.source.option_values import table_path

    servers = chosen_cluster(arguments, os.environ)
    path = table_path("--table", arguments.table)
    began = time.monotonic()
    try:
        options = options_of(servers, arguments.topic, arguments.start, arguments.to)
        from strandline_spark.bronze.replay import replay

        done = replay(options, path, _note)
    except OptionError as why:
        raise OptionError(_in_flags(str(why))) from why
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
