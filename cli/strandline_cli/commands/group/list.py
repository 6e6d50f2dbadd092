"""`strandline group list`."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_json, emit_table

if TYPE_CHECKING:
    from strandline.group_types import GroupListing


def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", help="List only groups in this state, as in Stable; may be repeated."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--type", help="List only groups of this type: Consumer or Classic."),
    ] = None,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """List the consumer groups of all coordinators.

    Example: strandline group list --state Stable
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "list[GroupListing]":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            return await admin.list_groups(states=state or (), types=kind or ())

    groups = run_client(work())
    if output is Format.JSON:
        emit_json([dataclasses.asdict(group) for group in groups])
    else:
        rows = [(g.group_id, g.state, g.type, g.coordinator) for g in groups]
        emit_table(("group", "state", "type", "coordinator"), rows)
    return 0
