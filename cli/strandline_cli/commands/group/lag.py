"""`strandline group lag`."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.interrupts import signals_cancel_task
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    GroupArgument,
    TimeoutOption,
)
from strandline_cli.shown.group_view import (
    LAG_COLUMNS,
    at_terminal,
    headline,
    lag_document,
    lag_rows,
    lag_table,
    total_lag,
)
from strandline_cli.shown.output import emit_json, emit_table, write_line

if TYPE_CHECKING:
    from typing import Any

    from strandline import Admin
    from strandline.group_types import GroupDescription


def lag(
    group: GroupArgument,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh every --interval seconds, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds between refreshes, with --watch.")
    ] = 1.0,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show how many records a group has left to read.

    Each partition has a bar. With --watch and --format json, each line is a document.

    Example: strandline group lag billing --watch
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> None:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            if watch:
                await _watch(admin, group, interval, output)
            else:
                _show(await _described(admin, group), output)

    try:
        run_client(work())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return 0


async def _described(admin: "Admin", group: str) -> "GroupDescription":
    return (await admin.describe_groups([group]))[group]


async def _watch(admin: "Admin", group: str, interval_s: float, output: Format) -> None:
    if output is Format.JSON or not at_terminal():
        with signals_cancel_task():
            while True:
                described = await _described(admin, group)
                if output is Format.JSON:
                    write_line(json.dumps(_document(described), ensure_ascii=False))
                else:
                    _show(described, output)
                await asyncio.sleep(interval_s)
    from rich.live import Live

    with signals_cancel_task(), Live(lag_table(await _described(admin, group))) as live:
        while True:
            await asyncio.sleep(interval_s)
            live.update(lag_table(await _described(admin, group)), refresh=True)


def _show(group: "GroupDescription", output: Format) -> None:
    if output is Format.JSON:
        emit_json(_document(group))
    elif at_terminal():
        from rich.console import Console

        Console().print(lag_table(group))
    else:
        write_line(headline(group))
        emit_table(LAG_COLUMNS, lag_rows(group.lags))


def _document(group: "GroupDescription") -> "dict[str, Any]":
    return {
        "group": group.group_id,
        "state": group.state,
        "lag": total_lag(group.lags),
        "partitions": [lag_document(lag) for lag in group.lags],
    }
