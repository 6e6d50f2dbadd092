"""`strandline topic delete`."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_done, emit_json, emit_table, note

if TYPE_CHECKING:
    from strandline.types import TopicDescription

_COLUMNS = ("topic", "partitions", "replication_factor")


def delete(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", show_default=False)
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="REGEX",
            help="Delete the topics whose whole names match, in RE2's syntax.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete what matches, without a question.")
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Delete topics and their records.

    A named topic is deleted at once. With --pattern the matching topics are listed first, internal
    ones never. At a terminal a question follows; elsewhere only --yes deletes them.

    Example: strandline topic delete --pattern 'test-.*'
    """
    from strandline_cli.client import run_client
    from strandline_cli.records.topic_pattern import compile_pattern

    if bool(topics) == (pattern is not None):
        raise UsageMistake("name topics, as in `strandline topic delete orders`, or give --pattern")
    bootstrap = find_target(bootstrap=bootstrap, directory=directory).bootstrap
    if pattern is None:
        names = list(dict.fromkeys(topics or []))
    else:
        compile_pattern(pattern)
        found = run_client(_matching(bootstrap, pattern, timeout))
        names = [topic.name for topic in found]
        if output is not Format.JSON:
            rows = [(t.name, len(t.partitions), _factor(t)) for t in found]
            emit_table(_COLUMNS, rows)
        if not yes and not _is_confirmed(len(names)):
            note("nothing is deleted: this is the plan, and --yes carries it out")
            if output is Format.JSON:
                emit_json({"topics": names, "deleted": False})
            return 0
    run_client(_delete(bootstrap, names, timeout))
    if len(names) == 1 and pattern is None:
        document: dict[str, object] = {"name": names[0], "deleted": True}
    else:
        document = {"topics": names, "deleted": True}
    emit_done(output, document, "\n".join(f"deleted {name}" for name in names))
    return 0


def _is_confirmed(count: int) -> bool:
    """The answer of the person at the terminal; False without a terminal."""
    if not (os.isatty(0) and os.isatty(2)):
        return False
    print(f"delete {count} topics with all records? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _factor(topic: "TopicDescription") -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)


async def _matching(bootstrap: str, pattern: str, timeout_s: float) -> "list[TopicDescription]":
    from strandline import Admin
    from strandline_cli.records.topic_pattern import matching_topics

    async with Admin(bootstrap, request_timeout_ms=timeout_s * 1000) as admin:
        described = await admin.describe_topics(await matching_topics(admin, pattern))
    return [described[name] for name in sorted(described)]


async def _delete(bootstrap: str, names: Sequence[str], timeout_s: float) -> None:
    from strandline import Admin
    from strandline.errors import UnknownTopicOrPartition

    async with Admin(bootstrap, request_timeout_ms=timeout_s * 1000) as admin:
        if len(names) > 1:
            # One call deletes each topic that it can, so a misspelt name is looked for before.
            there = await admin.describe_topics(include_internal=True)
            if missing := [name for name in names if name not in there]:
                raise CliError(
                    f"topic {', '.join(map(repr, missing))} does not exist, and nothing is deleted:"
                    " `strandline topic list` shows the topics there are"
                )
        try:
            await admin.delete_topics(names)
        except UnknownTopicOrPartition:
            if len(names) == 1:
                raise
            note("a topic was deleted by someone else meanwhile")
