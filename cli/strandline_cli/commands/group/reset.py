"""`strandline group reset`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    GroupArgument,
    TimeoutOption,
)
from strandline_cli.planning.offset_goals import Goal, PlannedReset, chosen, goal_of, planned
from strandline_cli.records.topic_partitions import parse_topics
from strandline_cli.shown.output import emit_json, emit_table, note

if TYPE_CHECKING:
    from strandline import Admin, Consumer
    from strandline.types import TopicPartition

_MEMBERS_NAMED = 5


def reset(
    group: GroupArgument,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Go to the first record of each partition.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Go to the end, after the last committed record.")
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, metavar="N", help="Go to offset N.")
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            "--shift-by", metavar="N", help="Move by N records; a negative N reads N records again."
        ),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="T",
            help="Go to the first record at or after a time; UTC without a zone.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration", metavar="D", help="Go to the records of the last PT2H, P1D, P1DT30M."
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="F",
            help="Read the offsets from lines of TOPIC,PARTITION,OFFSET.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:P,...]",
            help="Reset only these; may be repeated. Default: all with a committed offset.",
        ),
    ] = None,
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Set the offsets. Without it the plan is shown, no more."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, as without --execute.")
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Plan new committed offsets of a group, or set them.

    The plan is shown, and carried out with --execute only. The group must have no members. An
    offset outside the log is moved to its nearer end, and the output says so. A missing group is
    created if --topic or --from-file names its partitions.

    Example: strandline group reset billing --to-earliest --execute
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    if execute and dry_run:
        raise UsageMistake("--execute and --dry-run exclude each other: give one")
    goal = goal_of(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_offset=to_offset,
        shift_by=shift_by,
        to_datetime=to_datetime,
        by_duration=by_duration,
        from_file=from_file,
        group=group,
    )
    topics = parse_topics(topic or [])
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> list[PlannedReset]:
        from strandline import Consumer

        async with (
            Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin,
            Consumer(
                bootstrap_servers=target.bootstrap, request_timeout_ms=timeout * 1000
            ) as consumer,
        ):
            return await reset_offsets(admin, consumer, group, goal, topics, execute=execute)

    _show(group, run_client(work()), output, executed=execute)
    return 0


async def reset_offsets(
    admin: "Admin",
    consumer: "Consumer",
    group: str,
    goal: Goal,
    topics: list[tuple[str, int | None]],
    *,
    execute: bool,
) -> list[PlannedReset]:
    """Plans the reset of each partition, and commits the new offsets if `execute` is set."""
    await _refuse_members(admin, group)
    offsets = await admin.list_group_offsets(group)
    committed = {partition: at.offset for partition, at in offsets.items()}
    partitions = await _partitions(admin, group, goal, topics, list(committed))
    plans = await planned(goal, partitions, committed, consumer)
    if execute:
        await admin.alter_group_offsets(group, {p.partition: p.after for p in plans})
    return plans


def _show(group: str, plans: list[PlannedReset], output: Format, *, executed: bool) -> None:
    if output is Format.JSON:
        partitions = list(map(_document, plans))
        emit_json(
            {
                "group": group,
                "executed": executed,
                "dry_run": not executed,
                "partitions": partitions,
            }
        )
    else:
        emit_table(("topic", "partition", "before", "after", ""), map(_row, plans))
    if not executed:
        note("nothing is changed: this is the plan, and --execute carries it out")


def _row(plan: PlannedReset) -> tuple[object, ...]:
    return (
        plan.partition.topic,
        plan.partition.partition,
        "-" if plan.before is None else plan.before,
        plan.after,
        f"{plan.wanted} is outside the log" if plan.is_clamped else "",
    )


async def _refuse_members(admin: "Admin", group: str) -> None:
    """Refuse a group with members: they would commit over the new offsets."""
    from strandline.errors import GroupIdNotFound

    try:
        members = (await admin.describe_groups([group]))[group].members
    except GroupIdNotFound:
        return
    if members:
        names = [f"{m.member_id} ({m.client_id or 'no client id'}, {m.host})" for m in members]
        more = f" and {len(names) - _MEMBERS_NAMED} more" if len(names) > _MEMBERS_NAMED else ""
        raise CliError(
            f"group {group!r} has members that commit what they read: "
            f"{', '.join(names[:_MEMBERS_NAMED])}{more}: stop them first"
        )


async def _partitions(
    admin: "Admin",
    group: str,
    goal: Goal,
    topics: list[tuple[str, int | None]],
    committed: "list[TopicPartition]",
) -> "list[TopicPartition]":
    """The partitions to reset, each of which exists."""
    if goal.offsets is not None:
        wanted: list[tuple[str, int | None]] = [(p.topic, p.partition) for p in goal.offsets]
        if topics:
            wanted = [one for one in wanted if one in topics or (one[0], None) in topics]
    else:
        wanted = topics or [(p.topic, p.partition) for p in committed]
    if not wanted:
        raise CliError(f"group {group!r} has committed nothing: say what to set with --topic")
    described = await admin.describe_topics({name for name, _ in wanted})
    exist = {name: [p.partition for p in topic.partitions] for name, topic in described.items()}
    return chosen(wanted, exist)


def _document(plan: PlannedReset) -> dict[str, object]:
    return {
        "topic": plan.partition.topic,
        "partition": plan.partition.partition,
        "before": plan.before,
        "wanted": plan.wanted,
        "after": plan.after,
        "clamped": plan.is_clamped,
    }
