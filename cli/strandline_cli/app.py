"""The command tree. Command modules import typer and nothing heavy, so that `--help` is quick."""

import contextlib
import functools
import inspect
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import typer

from strandline_cli.cluster.target import cluster_directory
from strandline_cli.commands.chaos.chaos import chaos_app
from strandline_cli.commands.completion import completion
from strandline_cli.commands.config.config import config_app
from strandline_cli.commands.console import console
from strandline_cli.commands.consume import consume
from strandline_cli.commands.context.context import context_app
from strandline_cli.commands.demo import demo_app
from strandline_cli.commands.doctor import doctor
from strandline_cli.commands.group.group import group_app
from strandline_cli.commands.health import health
from strandline_cli.commands.local.down import down
from strandline_cli.commands.local.kill import kill
from strandline_cli.commands.local.restart import restart
from strandline_cli.commands.local.start import start
from strandline_cli.commands.local.status import status
from strandline_cli.commands.local.stop import stop
from strandline_cli.commands.local.up import up
from strandline_cli.commands.log.log import log_app
from strandline_cli.commands.produce import produce
from strandline_cli.commands.replica.leader import leader_app
from strandline_cli.commands.replica.log_dirs import log_dirs
from strandline_cli.commands.replica.offsets import offsets
from strandline_cli.commands.replica.reassign import reassign
from strandline_cli.commands.replica.replica import replica_app
from strandline_cli.commands.replica.strays import strays
from strandline_cli.commands.server.broker import broker_app
from strandline_cli.commands.server.controller import controller_app
from strandline_cli.commands.topic.topic import topic_app
from strandline_cli.commands.transaction.transaction import transaction_app
from strandline_cli.errors import UsageMistake
from strandline_cli.options import ContextOption, DirOption
from strandline_cli.shown.help_page import command_group
from strandline_local.contexts import CONTEXT_VARIABLE
from strandline_runtime.build_id import build_id


def build_app() -> typer.Typer:
    """Every command of `strandline`, in the order in which help shows them."""
    app = command_group(
        "A replicated commit log with Kafka's semantics: run a cluster, use it, break it.",
        "strandline up --detach && strandline topic create orders",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for section, entries in _sections().items():
        for name, entry in entries.items():
            if isinstance(entry, typer.Typer):
                app.add_typer(entry, name=name, rich_help_panel=section)
            else:
                app.command(name, rich_help_panel=section, add_help_option=entry is not _bench)(
                    entry
                )
    _wrap_commands(app)
    return app


def _sections() -> dict[str, dict[str, typer.Typer | Callable[..., Any]]]:
    """The commands and groups by the sections of the help."""
    return {
        "A cluster on this machine": {
            "up": up,
            "down": down,
            "start": start,
            "stop": stop,
            "restart": restart,
            "kill": kill,
        },
        "Records": {"produce": produce, "consume": consume},
        "Topics and groups": {
            "topic": topic_app(),
            "group": group_app(),
            "transaction": transaction_app(),
            "config": config_app(),
        },
        "The state of a cluster": {
            "status": status,
            "health": health,
            "doctor": doctor,
            "console": console,
            "offsets": offsets,
            "log-dirs": log_dirs,
        },
        "Replicas and servers": {
            "leader": leader_app(),
            "reassign": reassign,
            "replica": replica_app(),
            "broker": broker_app(),
            "controller": controller_app(),
        },
        "Files of a server": {"log": log_app(), "strays": strays},
        "This command line": {"context": context_app(), "completion": completion},
        "Proof": {"demo": demo_app(), "bench": _bench, "chaos": chaos_app()},
    }


def _wrap_commands(app: typer.Typer) -> None:
    """Gives every command what all commands have in common."""
    for command in app.registered_commands:
        assert command.callback is not None
        command.callback = _with_context(_without_nan(command.callback))
    for group in app.registered_groups:
        assert group.typer_instance is not None
        _wrap_commands(group.typer_instance)


def _without_nan(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command without NaN: to typer it is neither below a bound nor above it."""

    @functools.wraps(command)
    def checked(**given: Any) -> Any:
        for name, value in given.items():
            if isinstance(value, float) and math.isnan(value):
                raise UsageMistake(f"--{name.replace('_', '-')} nan is no number: give one")
        return command(**given)

    return checked


def _with_context(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --context, if it takes --bootstrap or --dir."""
    signature = inspect.signature(command)
    beside = [
        name
        for name, each in signature.parameters.items()
        if name == "bootstrap" or each.annotation is DirOption
    ]
    if not beside:
        return command

    @functools.wraps(command)
    def chosen(*, context: str | None, **given: Any) -> Any:
        if context is None:
            return command(**given)
        if any(given[name] is not None for name in beside):
            flags = " and ".join("--dir" if n == "directory" else "--bootstrap" for n in beside)
            raise UsageMistake(f"--context names a cluster: leave out {flags}, or --context")
        if beside == ["directory"]:
            around = {**os.environ, CONTEXT_VARIABLE: context}
            return command(**{**given, "directory": cluster_directory(None, around)})
        with _variable(CONTEXT_VARIABLE, context):
            return command(**given)

    parameters = list(signature.parameters.values())
    at = list(signature.parameters).index(beside[0]) + 1
    added = inspect.Parameter(
        "context", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ContextOption
    )
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    parameters.insert(at, added)
    chosen.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    chosen.__annotations__ = {**command.__annotations__, "context": ContextOption}
    return chosen


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"strandline {build_id()}")
        raise typer.Exit


def _root(
    _version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options of the whole program."""


def _bench() -> None:
    """Measure startup, failover, throughput, latency and more.

    Example: strandline bench produce --records 100000
    """
    raise AssertionError("main.py hands benchmarks over before options are parsed")
