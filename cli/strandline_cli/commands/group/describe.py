"""`strandline group describe`."""

from typing import TYPE_CHECKING

from strandline_cli.cluster.target import find_target
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
    group_document,
    headline,
    lag_rows,
    member_row,
)
from strandline_cli.shown.output import emit_json, emit_table, write_line

if TYPE_CHECKING:
    from strandline.group_types import GroupDescription

_COLUMNS = ("member", "client", "host", "epoch", "assignment", "to be")


def describe(
    group: GroupArgument,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show state, epochs, members and lag of a group.

    Example: strandline group describe billing
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "GroupDescription":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            return (await admin.describe_groups([group]))[group]

    described = run_client(work())
    if output is Format.JSON:
        emit_json(group_document(described))
        return 0
    write_line(headline(described))
    emit_table(_COLUMNS, map(member_row, described.members))
    emit_table(LAG_COLUMNS, lag_rows(described.lags))
    return 0
