"""`strandline context ...`: names for clusters, so that commands need no addresses."""

import os
from pathlib import Path
from typing import Annotated

import typer

from strandline_cli.cluster.target import check_addresses
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import Format, FormatOption
from strandline_cli.shown.help_page import command_group
from strandline_cli.shown.output import emit_done, emit_json, emit_table, note
from strandline_local.contexts import DEFAULT_DIR, Context, check_name, choose, load_contexts

NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


def context_app() -> typer.Typer:
    app = command_group(
        "Give clusters names, and choose among them.",
        "strandline context add prod --bootstrap broker-1:9092",
    )
    app.command("add")(add)
    app.command("use")(use)
    app.command("list")(list_contexts)
    app.command("show")(show)
    app.command("remove")(remove)
    return app


def add(
    name: NameArgument,
    addresses: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT,...", help="Addresses of its brokers."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Directory of a local cluster.")
    ] = None,
    at_once: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
    output: FormatOption = Format.TABLE,
) -> int:
    """Name a cluster; a context of this name is replaced.

    Every command that takes --bootstrap or --dir takes --context NAME. STRANDLINE_CONTEXT does the
    same.

    Example: strandline context add prod --bootstrap broker-1:9092,broker-2:9092
    """
    check_name(name)
    if (addresses is None) == (folder is None):
        raise UsageMistake("say where the cluster is: --bootstrap HOST:PORT,... or --dir DIR")
    contexts = load_contexts()
    replaced = contexts.named.get(name)
    if addresses is not None:
        context = Context(bootstrap=check_addresses(addresses))
    else:
        context = Context(directory=os.path.abspath(str(folder)))
    contexts.named[name] = context
    if at_once:
        contexts.current = name
    contexts.save()
    done = "added" if replaced is None else f"replaced ({replaced} before)"
    line = f"context {name} {done}: {context}"
    document = {"name": name, "bootstrap": context.bootstrap, "dir": context.directory}
    emit_done(output, document | {"in_use": contexts.current == name}, line)
    if contexts.current != name:
        note(f"use it with --context {name}, or from now on with `strandline context use {name}`")
    return 0


def use(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    nothing: Annotated[bool, typer.Option("--none", help="Use no context from now on.")] = False,
    output: FormatOption = Format.TABLE,
) -> int:
    """Choose the context of commands that name no cluster.

    Flags, STRANDLINE_BOOTSTRAP, STRANDLINE_DIR and a cluster in ./.strandline come before it.

    Example: strandline context use prod
    """
    if nothing == (name is not None):
        raise UsageMistake("name a context, as in `strandline context use prod`, or give --none")
    contexts = load_contexts()
    if name is not None:
        contexts.get(name)
    contexts.current = name
    contexts.save()
    line = "no context is in use" if name is None else f"context {name} is in use: commands without"
    emit_done(output, {"in_use": name}, line if name is None else f"{line} a cluster address it")
    if name is not None and DEFAULT_DIR.exists():
        note(f"in this folder ./{DEFAULT_DIR} comes first: give --context {name}")
    return 0


def list_contexts(output: FormatOption = Format.TABLE) -> int:
    """List the contexts, with a mark at the one in use.

    Example: strandline context list
    """
    contexts = load_contexts()
    if output is Format.JSON:
        emit_json(
            [
                {
                    "name": name,
                    "bootstrap": context.bootstrap,
                    "dir": context.directory,
                    "in_use": name == contexts.current,
                }
                for name, context in sorted(contexts.named.items())
            ]
        )
    elif not contexts.named:
        note("there is no context: `strandline context add prod --bootstrap HOST:PORT` makes one")
    else:
        rows = [
            ("*" if name == contexts.current else "", name, context.bootstrap or context.directory)
            for name, context in sorted(contexts.named.items())
        ]
        emit_table(("", "context", "cluster"), rows)
    return 0


def show(output: FormatOption = Format.TABLE) -> int:
    """Show which cluster commands address here, and why.

    Example: strandline context show
    """
    choice = choose(None, None)
    where = choice.bootstrap or str(choice.directory)
    document = {
        "bootstrap": choice.bootstrap,
        "dir": None if choice.directory is None else str(choice.directory),
        "because": choice.why,
    }
    emit_done(output, document, f"{where} (by {choice.why})")
    return 0


def remove(
    name: NameArgument,
    output: FormatOption = Format.TABLE,
) -> int:
    """Forget a context; the cluster stays as it is.

    Example: strandline context remove prod
    """
    contexts = load_contexts()
    if name not in contexts.named:
        known = ", ".join(sorted(contexts.named)) or "there is none"
        raise CliError(f"no context {name!r} ({known})")
    del contexts.named[name]
    was_in_use = contexts.current == name
    if was_in_use:
        contexts.current = None
    contexts.save()
    emit_done(output, {"name": name, "removed": True}, f"context {name} removed")
    if was_in_use:
        note("it was in use; no context is in use now")
    return 0
