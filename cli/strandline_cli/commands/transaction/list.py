"""`strandline transaction list`."""

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
    from strandline.transaction_types import TransactionListing


def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", help="List only transactions in this state, as in Ongoing; may be repeated."
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", min=0, help="List only this producer's; may be repeated."),
    ] = None,
    longer_than: Annotated[
        float | None,
        typer.Option(
            "--longer-than", min=0, metavar="S", help="Only those open for more seconds than this."
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="REGEX", help="Only ids that match, in RE2's syntax."),
    ] = None,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """List the transactional ids of all coordinators.

    Example: strandline transaction list --state Ongoing
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "list[TransactionListing]":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            return await admin.list_transactions(
                states=state or (),
                producer_ids=producer_id or (),
                running_longer_than_ms=None if longer_than is None else longer_than * 1000,
                pattern=pattern,
            )

    found = run_client(work())
    if output is Format.JSON:
        emit_json([dataclasses.asdict(each) for each in found])
    else:
        rows = [(t.transactional_id, t.state, t.producer_id, t.coordinator) for t in found]
        emit_table(("transactional id", "state", "producer id", "coordinator"), rows)
    return 0
