"""`strandline consume`: records on standard output, as kcat prints them."""

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    MaxDecompressedBytesOption,
)
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from strandline.types import IsolationLevel
    from strandline_cli.records.group_printer import GroupPrinter


class Isolation(StrEnum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"

    @property
    def level(self) -> "IsolationLevel":
        return "read_committed" if self is Isolation.READ_COMMITTED else "read_uncommitted"


Starts = dict[str, bool | int | str | None]
"""The options that say where to start, and their values."""


def consume(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC[:P,...]]...", show_default=False)
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="REGEX",
            help="Read the topics whose whole names match, in RE2's syntax.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Join this group, continue at its offsets, and commit printed records.",
        ),
    ] = None,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="Start at the first record; with --group, where nothing is committed.",
        ),
    ] = False,
    from_time: Annotated[
        str | None,
        typer.Option(
            "--from-time",
            metavar="T",
            help="Start at the first record at or after a time; UTC without a zone. PT2H: 2 h ago.",
        ),
    ] = None,
    line_format: Annotated[
        str, typer.Option("-f", "--line-format", help=r"%t %p %o %k %v %T %e %h %s and \n \t.")
    ] = r"%v\n",
    exit_at_end: Annotated[
        bool,
        typer.Option("--exit-at-end", "-e", help="End at the log's end at the time of the start."),
    ] = False,
    partitions: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", min=0, help="As TOPIC:P of a single topic; may be repeated."
        ),
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option("--offset", "-o", help="Start at this offset; -N: N records before the end."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", min=1, help="Number of records after which to end."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=0.1,
            help="With --exit-at-end: seconds without a record until an error.",
        ),
    ] = 30.0,
    isolation_level: Annotated[
        Isolation,
        typer.Option(
            "--isolation-level",
            help="read_committed: no records of open or aborted transactions.",
        ),
    ] = Isolation.READ_UNCOMMITTED,
    max_decompressed_bytes: MaxDecompressedBytesOption = DECOMPRESSED_BYTES_MAX,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Print records; only new ones, unless a start is given.

    In -f, %t is the topic, %p the partition, %o the offset, %k the key, %v the value, %T the time
    in ms, %e the leader epoch and %h the headers. --format json has all of them.

    With --group, the partitions are shared with the group's other members. Ctrl-C and SIGTERM leave
    the group after the printed records are committed. Topics that are created later and match
    --pattern are then read too; without a group they are not.

    Example: strandline consume orders --from-beginning --exit-at-end
    """
    from strandline_cli.client import run_client
    from strandline_cli.planning.offset_goals import start_ms
    from strandline_cli.records.group_printer import GroupPrinter
    from strandline_cli.records.line_format import compile_format
    from strandline_cli.records.record_json import json_line
    from strandline_cli.records.record_printer import RecordPrinter

    places = chosen_places(topics or [], pattern, partitions)
    starts: Starts = {
        "--from-beginning": from_beginning or None,
        "--offset": offset,
        "--from-time": from_time,
    }
    check_choice(places, starts, is_group=group is not None)
    to_bytes = json_line if output is Format.JSON else compile_format(line_format)
    time_ms = None if from_time is None else start_ms("--from-time", from_time)
    target = find_target(bootstrap=bootstrap, directory=directory)
    if group is not None:
        member = GroupPrinter(
            bootstrap=target.bootstrap,
            group=group,
            topics=[topic for topic, _ in places],
            pattern=pattern,
            to_bytes=to_bytes,
            from_beginning=from_beginning,
            exit_at_end=exit_at_end,
            count=count,
            timeout_s=timeout,
            max_decompressed_bytes=max_decompressed_bytes,
            isolation_level=isolation_level.level,
        )
        _run_member(member)
        return 0
    printer = RecordPrinter(
        bootstrap=target.bootstrap,
        topics=places,
        pattern=pattern,
        to_bytes=to_bytes,
        from_beginning=from_beginning,
        time_ms=time_ms,
        offset=offset,
        exit_at_end=exit_at_end,
        count=count,
        timeout_s=timeout,
        max_decompressed_bytes=max_decompressed_bytes,
        isolation_level=isolation_level.level,
    )
    run_client(printer.run())
    return 0


def _run_member(member: "GroupPrinter") -> None:
    from strandline_cli.client import run_client

    try:
        run_client(member.run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def chosen_places(
    topics: list[str], pattern: str | None, partitions: list[int] | None
) -> list[tuple[str, int | None]]:
    """The topics and partitions to read; none with a pattern. Raises UsageMistake."""
    from strandline_cli.records.topic_partitions import parse_topics
    from strandline_cli.records.topic_pattern import compile_pattern

    if bool(topics) == (pattern is not None):
        raise UsageMistake("name topics, as in `strandline consume orders`, or give --pattern")
    if pattern is not None:
        compile_pattern(pattern)
    places = parse_topics(topics, "")
    if partitions is None:
        return places
    if len(places) != 1 or places[0][1] is not None:
        raise UsageMistake(
            "--partition goes with one topic: name the partitions as TOPIC:P, as in orders:0,2"
        )
    return [(places[0][0], partition) for partition in partitions]


def check_choice(places: list[tuple[str, int | None]], starts: Starts, *, is_group: bool) -> None:
    """Raises UsageMistake for a start that is not clear, or that a group does not take."""
    given = [name for name, value in starts.items() if value is not None]
    if len(given) > 1:
        raise UsageMistake(f"{' and '.join(given)} all say where to start: give one")
    partitions = any(partition is not None for _, partition in places)
    if is_group and (partitions or (given and given != ["--from-beginning"])):
        raise UsageMistake(
            "partitions, --offset and --from-time do not go with --group: the group shares out the"
            " partitions, and `strandline group reset` sets its positions"
        )
    offset, topics = starts["--offset"], {topic for topic, _ in places}
    if isinstance(offset, int) and offset >= 0 and len(topics) != 1:
        raise UsageMistake(
            f"--offset {offset} is an offset of one topic, and several are read: name one, or use"
            " -N for the last N records of each partition"
        )
