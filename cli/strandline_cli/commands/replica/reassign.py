"""`strandline reassign`: moves of replicas between brokers, and changes of their number."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.commands.partition_argument import chosen_partition
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    ThrottleOption,
    TimeoutOption,
)
from strandline_cli.planning.reassignment_plan import (
    Plan,
    copies,
    moves,
    parse_brokers,
    parse_plan,
    plan_document,
    spread,
)
from strandline_cli.records.topic_partitions import parse_partition
from strandline_cli.shown.output import emit_done, emit_json, emit_table, listed, note, write_line

if TYPE_CHECKING:
    from strandline import Admin
    from strandline_cli.planning.reassigning import Brokers

FILE_BYTES_MAX: Final = 64 << 20
_NOTHING: Final = "no reassignment is under way"


def reassign(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="Topic to move; may be repeated. Default: all."
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option("--partition", metavar="TOPIC:P", help="Partition to move, as in orders:0."),
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            "--replicas",
            metavar="ID,...",
            help="New replicas of the partition, preferred leader first.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", metavar="PLAN", help="Read the moves from a plan in Kafka's JSON format."
        ),
    ] = None,
    to_brokers: Annotated[
        str | None,
        typer.Option(
            "--to-brokers",
            metavar="ID,...",
            help="Spread the topics over these brokers, with few moves.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", "-r", min=1, help="Number of replicas for each partition."
        ),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel moves: return to the replicas before them.")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Show the moves under way.")] = False,
    throttle: ThrottleOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for the end of the moves.")
    ] = 0.0,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Move replicas to other brokers, while they are in use.

    The new replicas copy first. The old ones are removed when all new ones are in sync. A new
    target may be given while a move is under way.

    Example: strandline reassign --topic orders --to-brokers 1,2,4 --dry-run
    """
    from strandline_cli.client import run_client

    topics, number = _named(topic or [], partition)
    wish = _Wish(
        topics=topics,
        partition=number,
        replicas=None if replicas is None else parse_brokers("--replicas", replicas),
        file=file,
        to_brokers=None if to_brokers is None else parse_brokers("--to-brokers", to_brokers),
        replication_factor=replication_factor,
        cancel=cancel,
        status=status,
        throttle=throttle,
        dry_run=dry_run,
        wait_s=wait,
        output=output,
    )
    wish.check()
    target = find_target(bootstrap=bootstrap, directory=directory)
    run_client(_carry_out(wish, target.bootstrap, timeout))
    return 0


def _named(topics: list[str], partition: str | None) -> tuple[list[str], int | None]:
    """The topics, and the number of the one partition. `--topic T --partition N` is old."""
    if partition is None:
        return topics, None
    if ":" not in partition and partition.isascii() and partition.isdecimal():
        if len(topics) != 1:
            raise UsageMistake(f"--partition {partition} names no topic: use TOPIC:{partition}")
        return topics, chosen_partition(topics[0], int(partition), "--topic")[1]
    topic, number = parse_partition(partition, "--partition ")
    if topics not in ([], [topic]):
        raise UsageMistake(f"--partition {partition} names its topic: leave out --topic")
    return [topic], number


@dataclass(frozen=True)
class _Wish:
    """The command line, read."""

    topics: list[str]
    partition: int | None
    replicas: tuple[int, ...] | None
    file: Path | None
    to_brokers: tuple[int, ...] | None
    replication_factor: int | None
    cancel: bool
    status: bool
    throttle: int | None
    dry_run: bool
    wait_s: float
    output: Format

    @property
    def spreads(self) -> bool:
        return self.to_brokers is not None or self.replication_factor is not None

    @property
    def has_plan(self) -> bool:
        return self.replicas is not None or self.file is not None or self.spreads

    def check(self) -> None:
        """Raises UsageMistake for what contradicts itself."""
        kinds = (
            self.replicas is not None,
            self.file is not None,
            self.spreads,
            self.cancel,
            self.status,
        )
        if sum(kinds) > 1:
            raise UsageMistake(
                "--replicas, --file, --to-brokers with --replication-factor, --cancel and "
                "--status are different things to do: choose one"
            )
        if sum(kinds) == 0 and self.throttle is None:
            raise UsageMistake(
                "nothing to do: use --replicas, --file, --to-brokers, --cancel or --status"
            )
        names_one = len(self.topics) == 1 and self.partition is not None
        if self.replicas is not None and not names_one:
            raise UsageMistake("--replicas needs the --partition to move, as in orders:0")
        if self.partition is not None and not (
            names_one and (self.replicas is not None or self.cancel)
        ):
            raise UsageMistake("--partition TOPIC:P needs --replicas or --cancel")
        if self.file is not None and self.topics:
            raise UsageMistake("--file names its topics itself: leave --topic out")
        if self.dry_run and not self.has_plan:
            raise UsageMistake("--dry-run is for a plan: --replicas, --file, --to-brokers")
        if self.wait_s > 0 and not self.has_plan:
            raise UsageMistake("--wait is for a plan: --replicas, --file, --to-brokers")


async def _carry_out(wish: _Wish, bootstrap: str, timeout_s: float) -> None:
    from strandline import Admin
    from strandline_cli.planning import reassigning

    async with Admin(bootstrap, request_timeout_ms=timeout_s * 1000) as admin:
        if wish.throttle is not None and not wish.dry_run:
            await reassigning.set_throttle(admin, wish.throttle)
        if wish.status:
            await _show_status(admin, wish)
        elif wish.cancel:
            await _cancel(admin, wish)
        elif wish.has_plan:
            await _move(admin, wish)
        else:
            document = {"throttle": wish.throttle or None}
            emit_done(wish.output, document, _throttled(wish.throttle))


async def _move(admin: "Admin", wish: _Wish) -> None:
    from strandline_cli.planning import reassigning

    if wish.replicas is not None:
        plan: Plan = {(wish.topics[0], wish.partition or 0): wish.replicas}
    elif wish.file is not None:
        plan = parse_plan(_read(wish.file), str(wish.file))
    else:
        brokers = await reassigning.registered_brokers(admin)
        plan = _spread(
            await reassigning.current_replicas(admin, wish.topics or None), brokers, wish
        )
    current = await reassigning.current_replicas(admin, {topic for topic, _ in plan})
    todo = moves(current, plan)
    if wish.dry_run or not todo:
        _show_plan(current, todo, wish)
        return
    await reassigning.alter(admin, todo)
    is_done = wish.wait_s > 0
    if is_done:
        await reassigning.wait_until_done(admin, todo, wish.wait_s)
    said = f"{_plural(len(todo))} {'moved' if is_done else 'on the move'}"
    more = "" if is_done else "; `strandline reassign --status` shows how far"
    emit_done(wish.output, plan_document(todo) | {"done": is_done}, said + more)


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            raise CliError(f"{file} is larger than {FILE_BYTES_MAX >> 20} MiB: split the plan")
        return text.decode()
    except (OSError, UnicodeDecodeError) as why:
        raise CliError(f"cannot read the plan {file}: {why}") from None


def _spread(
    current: dict[tuple[str, int], tuple[int, ...]], brokers: "Brokers", wish: _Wish
) -> Plan:
    """A plan for these brokers; without them for all that take replicas."""
    factor, racks = wish.replication_factor, brokers.live
    if wish.to_brokers is None:
        return spread(current, racks, replication_factor=factor, level=False, staying=brokers.known)
    missing = [b for b in wish.to_brokers if b not in racks]
    if missing:
        raise CliError(
            f"broker {listed(missing)} cannot take replicas now: it is not registered, down, or "
            f"being decommissioned; those that can: {listed(sorted(racks))}"
        )
    chosen = {b: racks[b] for b in wish.to_brokers}
    return spread(current, chosen, replication_factor=factor)


def _throttled(rate: int | None) -> str:
    return f"moves copy at most {rate} bytes a second at each broker" if rate else "no throttle"


async def _cancel(admin: "Admin", wish: _Wish) -> None:
    from strandline_cli.planning import reassigning

    if wish.partition is None:
        ongoing = await admin.list_partition_reassignments(wish.topics or None)
        wanted = [(at.topic, at.partition) for at in ongoing]
    else:
        wanted = [(wish.topics[0], wish.partition)]
    count = await reassigning.alter(admin, dict.fromkeys(wanted))
    named = [{"topic": topic, "partition": index} for topic, index in wanted]
    line = f"{_plural(count)} back on the replicas before"
    emit_done(wish.output, {"cancelled": named}, line if wanted else _NOTHING)


async def _show_status(admin: "Admin", wish: _Wish) -> None:
    from strandline_cli.planning import reassigning

    progress = await reassigning.progress(admin)
    shown = [each for each in progress if not wish.topics or each.topic in wish.topics]
    if wish.output is Format.JSON:
        emit_json([each.document() for each in shown])
        return
    if not shown:
        write_line(_NOTHING)
        return
    columns = ("topic", "partition", "target", "adding", "removing", "isr", "records left")
    rows = [
        (
            each.topic,
            each.partition,
            listed(each.target),
            listed(each.adding),
            listed(each.removing),
            listed(each.isr),
            "unknown" if each.records_left is None else each.records_left,
        )
        for each in shown
    ]
    emit_table(columns, rows)


def _show_plan(current: dict[tuple[str, int], tuple[int, ...]], todo: Plan, wish: _Wish) -> None:
    if wish.output is Format.JSON:
        emit_json(plan_document(todo) | {"dry_run": wish.dry_run})
        return
    from strandline_cli.planning import reassigning

    if not todo:
        write_line("nothing to move: all replicas are where the plan wants them")
        return
    reassigning.emit_moves(current, todo)
    note(f"would move {_plural(len(todo))}, {copies(current, todo)} replicas to copy")


def _plural(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"
