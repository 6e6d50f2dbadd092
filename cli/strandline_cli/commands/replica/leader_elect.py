"""`strandline leader elect`."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import EXIT_FAILED, EXIT_OK, UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.records.topic_partitions import parse_topics
from strandline_cli.shown.output import emit_json, emit_table, note

if TYPE_CHECKING:
    from strandline.types import ElectionResult


def elect(
    partitions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC[:P,...]]...",
            show_default=False,
            help="Topics, or partitions of them.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Elect for every partition of the cluster.")
    ] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Where no replica leads: elect the best replica that lives, though it may lack"
            " acknowledged records; they are lost then, see `strandline leader losses`.",
        ),
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Give partitions back to their preferred leaders.

    The preferred leader is the first of the replicas. Only a replica in sync takes over, so no
    acknowledged record is lost, unless --unclean is given. Exit status 1 if a partition did not get
    the leader; the others did.

    Example: strandline leader elect --all
    """
    from strandline import Admin, ElectionType
    from strandline_cli.client import run_client

    if everything == bool(partitions):
        raise UsageMistake("name topics or partitions (TOPIC or TOPIC:P), or give --all")
    wanted = None if everything else _wanted(partitions or [])
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "list[ElectionResult]":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            return await admin.elect_leaders(kind, wanted)

    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    nothing = "no partition is without a leader" if unclean else _ALL_PREFERRED
    return emit_elections(run_client(work()), output, nothing=nothing)


def _wanted(texts: list[str]) -> list[tuple[str, int] | str]:
    """Partitions as pairs, and whole topics as names."""
    return [
        topic if partition is None else (topic, partition)
        for topic, partition in parse_topics(texts, "")
    ]


_ALL_PREFERRED = "every partition is led by its preferred leader"


def emit_elections(
    results: "list[ElectionResult]", output: Format, *, nothing: str = _ALL_PREFERRED
) -> int:
    """Prints the result of each partition; returns the exit status."""
    from strandline.errors import ElectionNotNeeded

    needless = [r for r in results if isinstance(r.error, ElectionNotNeeded)]
    failed = [r for r in results if r.error is not None and r not in needless]
    if output is Format.JSON:
        emit_json({"partitions": [_document(result) for result in results]})
    elif not results:
        note(nothing)
    else:
        rows = [
            (r.partition.topic, _number(r.partition.partition), _number(r.leader), _said(r))
            for r in results
        ]
        emit_table(("topic", "partition", "leader", "result"), rows)
    return EXIT_FAILED if failed else EXIT_OK


def _number(number: int) -> str:
    return "none" if number < 0 else str(number)


def _said(result: "ElectionResult") -> str:
    from strandline.errors import ElectionNotNeeded, describe

    if result.error is None:
        return "elected"
    if isinstance(result.error, ElectionNotNeeded):
        return "led it already"
    return describe(result.error)


def _document(result: "ElectionResult") -> dict[str, object]:
    from strandline.errors import describe

    return {
        "topic": result.partition.topic,
        "partition": result.partition.partition,
        "leader": result.leader,
        "error": None if result.error is None else describe(result.error),
    }
