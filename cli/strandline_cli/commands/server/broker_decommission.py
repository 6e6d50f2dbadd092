"""`strandline broker decommission`: a broker leaves the cluster permanently."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import Target, find_target
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    ThrottleOption,
    TimeoutOption,
)
from strandline_cli.planning.reassignment_plan import copies, plan_document
from strandline_cli.shown.output import emit_done, emit_json, listed, note, write_line
from strandline_local.cluster_files import check_not_decommissioned
from strandline_local.local_cluster import LocalCluster

if TYPE_CHECKING:
    from strandline import Admin

_ROUNDS_MAX = 20
"""Topics that are created meanwhile by assignments of their own may need another round."""


def decommission(
    broker: Annotated[int, typer.Argument(metavar="BROKER", min=0, show_default=False)],
    shutdown: Annotated[
        bool,
        typer.Option(
            "--shutdown", help="Stop the broker at the end, if it belongs to the cluster in --dir."
        ),
    ] = False,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo",
            help="Let the broker take replicas again, also after --shutdown. Moves go on.",
        ),
    ] = False,
    throttle: ThrottleOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the moves, and change nothing.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for the end of the moves.")
    ] = 3600.0,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Move all replicas off a broker, and remove the broker.

    The broker gets no new replicas from the start on. The command may be interrupted, and repeated.

    Example: strandline broker decommission 4 --shutdown
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    if undo and (shutdown or dry_run or throttle is not None):
        raise UsageMistake("--undo goes alone: it only lets the broker take replicas again")
    target = find_target(bootstrap=bootstrap, directory=directory)
    if undo and _take_in_again(target, broker):
        line = f"broker {broker} is part of the cluster again: `strandline start {broker}`"
        emit_done(output, {"broker": broker, "state": "TAKEN IN"}, line)
        return 0
    _check_local(target, broker, shutdown=shutdown)

    async def work() -> None:
        from strandline_cli.planning import reassigning

        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            if undo:
                await admin.decommission_broker(broker, undo=True)
                emit_done(output, {"broker": broker, "state": "STAYS"}, f"broker {broker} stays")
                return
            if dry_run:
                await _show_plan(admin, broker, output)
                return
            if throttle is not None:
                await reassigning.set_throttle(admin, throttle)
            document, line = await _leave(
                admin, target, broker, wait_s=wait, stop_within_s=timeout if shutdown else None
            )
            emit_done(output, document, line)

    run_client(work())
    return 0


async def _leave(
    admin: "Admin", target: Target, broker: int, *, wait_s: float, stop_within_s: float | None
) -> tuple[dict[str, object], str]:
    """Reports the broker's removal, for scripts and for people. The broker is stopped unless
    `stop_within_s` is None.
    """
    moved = 0
    # If it is removed already, an earlier command was interrupted right after that.
    is_gone = await _is_forgotten(admin, broker) and _may_retire(target, broker)
    if not is_gone:
        moved = await _empty(admin, broker, wait_s)
        if stop_within_s is not None:
            await asyncio.to_thread(_stop, target, broker)
        is_gone = await _unregister(admin, broker, wait_s=stop_within_s or 0.0)
    state = "UNREGISTERED" if is_gone else "EMPTY"
    line = f"broker {broker} has left the cluster"
    if is_gone and _may_retire(target, broker):
        await asyncio.to_thread(_retire, target, broker)
        line += ", and `strandline up` starts it no more (--undo takes it in again)"
    if not is_gone:
        line = (
            f"broker {broker} hosts nothing and gets nothing: stop it, and give this command again"
        )
    return {"broker": broker, "moved": moved, "state": state}, line


def _check_local(target: Target, broker: int, *, shutdown: bool) -> None:
    """Raises UsageMistake before anything is changed."""
    if target.local is not None:
        check_not_decommissioned(target.local.file, str(broker))
    if not shutdown:
        return
    if target.local is None or broker not in target.local.broker_ids:
        raise UsageMistake(
            f"--shutdown stops a broker of a local cluster, and broker {broker} is none: leave it "
            "out, stop the broker where it runs, and give the command again"
        )
    if len(target.local.broker_ids) == 1:
        raise UsageMistake(
            f"broker {broker} is the only one left: `strandline down` stops the cluster"
        )


def _stop(target: Target, broker: int) -> None:
    assert target.local is not None
    if target.local.process(broker).pid is not None:
        target.local.stop(broker)


def _may_retire(target: Target, broker: int) -> bool:
    """True if the broker belongs to a cluster of `up`, and is stopped."""
    local = target.local
    return (
        local is not None
        and broker in local.broker_ids
        and len(local.broker_ids) > 1
        and local.process(broker).pid is None
    )


def _retire(target: Target, broker: int) -> None:
    """`up` starts it no more. The file is read again: the moves may have taken hours."""
    assert target.local is not None
    local = LocalCluster.open(target.local.directory)
    local.keep(local.file.without(broker))


def _take_in_again(target: Target, broker: int) -> bool:
    """False if it is not one that has left a cluster of `up`."""
    if target.local is None or broker not in target.local.file.decommissioned:
        return False
    target.local.keep(target.local.file.with_again(broker))
    return True


async def _is_forgotten(admin: "Admin", broker: int) -> bool:
    return all(each.id != broker for each in (await admin.describe_cluster()).brokers)


async def _show_plan(admin: "Admin", broker: int, output: Format) -> None:
    from strandline_cli.planning import reassigning

    brokers = await reassigning.registered_brokers(admin)
    if broker not in brokers.known:
        raise CliError(f"no broker {broker} is registered, there are {listed(brokers.known)}")
    current = await reassigning.current_replicas(admin)
    plan = reassigning.without(broker, current, brokers)
    if not plan and output is not Format.JSON:
        write_line(f"broker {broker} hosts nothing")
        return
    if output is Format.JSON:
        emit_json(plan_document(plan) | {"dry_run": True})
        return
    reassigning.emit_moves(current, plan)
    note(f"would move {copies(current, plan)} replicas off broker {broker}")


async def _empty(admin: "Admin", broker: int, wait_s: float) -> int:
    """Move all off it; how many replicas that were."""
    from strandline_cli.planning import reassigning

    # Before anything is changed: does it fit?
    reassigning.without(
        broker,
        await reassigning.current_replicas(admin),
        await reassigning.registered_brokers(admin),
    )
    await admin.decommission_broker(broker)
    moved = 0
    for _ in range(_ROUNDS_MAX):
        current = await reassigning.current_replicas(admin)
        plan = reassigning.without(broker, current, await reassigning.registered_brokers(admin))
        if plan:
            moved += await reassigning.alter(admin, plan)
            await reassigning.wait_until_done(admin, plan, wait_s)
            continue
        leaving = await _still_leaving(admin, broker)
        if not leaving:
            return moved
        await reassigning.wait_until_done(admin, leaving, wait_s)
    raise CliError(
        f"broker {broker} still gets new replicas: is somebody assigning them? give the command "
        "again"
    )


async def _still_leaving(admin: "Admin", broker: int) -> dict[tuple[str, int], tuple[int, ...]]:
    """Moves off it that an earlier command has begun."""
    return {
        (at.topic, at.partition): each.target
        for at, each in (await admin.list_partition_reassignments()).items()
        if broker in each.replicas
    }


async def _unregister(admin: "Admin", broker: int, *, wait_s: float) -> bool:
    """False if it runs, and goes on running for so long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while True:
        cluster = await admin.describe_cluster()
        states = {each.id: each.state for each in cluster.brokers}
        if states.get(broker) == "FENCED":
            await admin.unregister_broker(broker)
            return True
        if broker not in states:
            return True
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(0.1)
