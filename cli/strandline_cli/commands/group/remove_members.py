"""`strandline group remove-members`."""

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
from strandline_cli.shown.output import emit_done

if TYPE_CHECKING:
    from strandline.group_types import RemovedMember


def remove_members(
    group: GroupArgument,
    member: Annotated[
        list[str] | None,
        typer.Option("--member", metavar="ID", help="Id of a member; may be repeated."),
    ] = None,
    instance: Annotated[
        list[str] | None,
        typer.Option(
            "--instance", metavar="ID", help="Instance id of a static member; may be repeated."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all members of the group.")] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Remove members; others take over their partitions.

    This is for static members that will not return, and for processes that hang. A member that
    still runs joins again by itself.

    Example: strandline group remove-members billing --instance worker-3
    """
    from strandline import Admin
    from strandline_cli.client import run_client

    if every == bool(member or instance):
        raise UsageMistake("say which members: --member and --instance, or --all")
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "list[RemovedMember]":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            members = None if every else member or []
            return await admin.remove_members(group, members, instances=instance or [])

    answers = run_client(work())
    removed = [answer.member_id for answer in answers if answer.error is None]
    refused = [str(answer.error) for answer in answers if answer.error is not None]
    count = f"{len(removed)} member{'' if len(removed) == 1 else 's'}"
    emit_done(output, {"group": group, "removed": removed}, f"removed {count} of group {group}")
    if refused:
        raise CliError("; ".join(refused))
    return 0
