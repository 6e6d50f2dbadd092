"""`strandline group delete`."""

from strandline_cli.cluster.target import find_target
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    GroupArgument,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_done


def delete(
    group: GroupArgument,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Delete a group without members, and its committed offsets.

    Example: strandline group delete billing
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> None:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            await admin.delete_groups([group])

    run_client(work())
    emit_done(output, {"group": group, "deleted": True}, f"deleted group {group}")
    return 0
