"""`strandline config alter`."""

from typing import Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.commands.config.resource import (
    DefaultOption,
    KindArgument,
    NameArgument,
    named,
    resource_of,
)
from strandline_cli.errors import UsageMistake
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_done, note_pending


def alter(
    kind: KindArgument,
    name: NameArgument = None,
    default: DefaultOption = False,
    entries: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key to a value; may be repeated."),
    ] = None,
    deletions: Annotated[
        list[str] | None,
        typer.Option(
            "--delete", metavar="KEY", help="Return a key to its default; may be repeated."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the request, and change nothing.")
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Alter keys while the cluster runs: all of them, or none.

    Example: strandline config alter topic orders --set retention.ms=3600000
    """
    from strandline import Admin, AlterConfigOpType, ConfigChange
    from strandline_cli.client import run_client
    from strandline_local.overrides import parse_pairs

    resource = resource_of(kind, name, default)
    to_set, to_delete = parse_pairs(entries or []), _keys(deletions or [])
    both = [key for key in to_delete if key in to_set]
    if both:
        raise UsageMistake(f"{both[0]} is both set and deleted: choose one")
    if not to_set and not to_delete:
        raise UsageMistake("nothing to alter: use --set KEY=VALUE or --delete KEY")
    target = find_target(bootstrap=bootstrap, directory=directory)
    changes = [ConfigChange(key, value) for key, value in to_set.items()]
    changes += [ConfigChange(key, operation=AlterConfigOpType.DELETE) for key in to_delete]

    async def work() -> list[int]:
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            return await admin.incremental_alter_configs({resource: changes}, validate_only=dry_run)

    pending = run_client(work())
    note_pending(pending)
    said = [f"{key}={value}" for key, value in to_set.items()]
    said += [f"{key} back to its default" for key in to_delete]
    document = {
        resource[0]: resource[1],
        "set": to_set,
        "deleted": to_delete,
        "dry_run": dry_run,
        "pending_brokers": pending,
    }
    done = "would alter" if dry_run else "altered"
    emit_done(output, document, f"{done} {named(resource)}: {', '.join(said)}")
    return 0


def _keys(given: list[str]) -> list[str]:
    keys = []
    for key in (text.strip() for text in given):
        if key == "" or "=" in key:
            raise UsageMistake(f"--delete takes a key alone, not {key!r}")
        if key in keys:
            raise UsageMistake(f"{key} is given twice: give it once")
        keys.append(key)
    return keys
