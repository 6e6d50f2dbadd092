"""`strandline transaction describe`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

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
from strandline_cli.shown.partitions import partition_text

if TYPE_CHECKING:
    from strandline.transaction_types import TransactionDescription


def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show the transaction of a transactional id.

    Example: strandline transaction describe payments-1
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "TransactionDescription":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            return (await admin.describe_transactions([transactional_id]))[transactional_id]

    found = document(run_client(work()))
    if output is Format.JSON:
        emit_json(found)
    else:
        rows = [
            (name.replace("_", " "), ", ".join(value) if isinstance(value, list) else value)
            for name, value in found.items()
        ]
        emit_table(("property", "value"), rows)
    return 0


def document(found: "TransactionDescription") -> dict[str, Any]:
    start = found.start_time_ms
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started": None if start is None else time_text(start),
        "coordinator": found.coordinator,
        "partitions": [partition_text(*tp) for tp in sorted(found.partitions)],
    }


def time_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
