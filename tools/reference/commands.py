"""docs/reference/command-line.md, from the parsers of the commands (typer and argparse)."""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from tempfile import gettempdir
from typing import Any

import typer

from md_table import table
from reference.words import GENERATED
from strandline_bench import options as bench
from strandline_bench.group import options as group_bench
from strandline_bench.log import options as log_bench
from strandline_bench.spark import options as spark_bench
from strandline_bench.transactions import options as transactions_bench
from strandline_broker.__main__ import _parser as server_parser
from strandline_cli.app import build_app
from strandline_spark.commands.main import _parser as spark_parser

HEAD = f"""\
# Command line

{GENERATED}
There are three programs:

- `strandline` runs clusters, produces, consumes and administers;
- `strandline-spark` runs Spark jobs;
- `python -m strandline_broker` is one server process.

Each has `--help`, at every level. The cell of a default is empty where the help says it. The
commands of `strandline chaos` but `live` and `transfers` need the repository, since no wheel has
the simulator.
"""
PROGRAMS = {
    "strandline": "The cluster, its topics and its records.",
    "strandline bench": "Benchmarks. Some measures have options of their own.",
    "strandline-spark": "Jobs from topics to tables.",
    "python -m strandline_broker": "One server process.",
}
EXAMPLE = re.compile(r"^Example: (.+)$")
UNSAID = ("None", "", "[]", "()", argparse.SUPPRESS, sys.executable, gettempdir())
"""Defaults that say nothing, or that differ from one machine to the next."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its whole name, its arguments' names, its help and its options' rows."""

    name: str
    arguments: tuple[str, ...]
    help: str
    rows: tuple[tuple[str, str, str], ...]

    def section(self) -> str:
        usage = " ".join([self.name, *self.arguments])
        parts = [f"### {self.name}\n", f"    {usage}\n"]
        if self.help:
            parts.append(f"{self.help}\n")
        if self.rows:
            parts.append(table(("option", "default", "meaning"), self.rows))
        return "\n".join(parts)


def command_line() -> str:
    programs = {
        "strandline": _typer_commands(typer.main.get_command(build_app()), "strandline"),
        "strandline bench": _benchmarks(),
        "strandline-spark": _argparse_commands(spark_parser(), "strandline-spark", ""),
        "python -m strandline_broker": _argparse_commands(
            server_parser(), "python -m strandline_broker", ""
        ),
    }
    return "\n".join([HEAD, *(_program(name, commands) for name, commands in programs.items())])


def _program(name: str, commands: Iterable[Command]) -> str:
    sections = "\n".join(command.section() for command in commands)
    return f"## {name}\n\n{PROGRAMS[name]}\n\n{sections}"


def _typer_commands(command: Any, name: str) -> Iterator[Command]:
    """Every command below this one that does something; a group alone only names them."""
    if name == "strandline bench":
        return
    below = getattr(command, "commands", {})
    if not below:
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name != "argument"]
        yield Command(
            name,
            tuple(_argument(p.metavar or p.name.upper(), p.required) for p in arguments),
            _paragraphs(command.help),
            (
                *((f"`{p.metavar or p.name.upper()}`", "", p.help) for p in arguments if p.help),
                *(_typer_row(p) for p in options if not p.hidden),
            ),
        )
    for each, child in below.items():
        yield from _typer_commands(child, f"{name} {each}")


def _typer_row(option: Any) -> tuple[str, str, str]:
    names = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag else f" {option.metavar or _choices(option.type) or 'VALUE'}"
    default = "" if option.is_flag else _value(option.default)
    shown = ", ".join(f"`{name}{value}`" for name in names)
    return shown, "must be given" if option.required else default, _paragraph(option.help)


def _choices(kind: Any) -> str:
    choices = getattr(kind, "choices", None)
    return "" if choices is None else "|".join(str(_plain(choice)) for choice in choices)


def _argparse_commands(parser: argparse.ArgumentParser, name: str, told: str) -> Iterator[Command]:
    nested = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not nested:
        actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
        positional = [a for a in actions if not a.option_strings and a.help != argparse.SUPPRESS]
        yield Command(
            name,
            tuple(_argument(_metavar(a), a.nargs not in ("?", "*")) for a in positional),
            _paragraphs(_with_example(parser, told)),
            tuple(_argparse_row(a) for a in actions if a.help != argparse.SUPPRESS),
        )
    for action in nested:
        helps = {choice.dest: choice.help for choice in action._choices_actions}
        for each, child in action.choices.items():
            yield from _argparse_commands(child, f"{name} {each}", helps.get(each) or "")


def _with_example(parser: argparse.ArgumentParser, told: str) -> str:
    """The text of a parser as a typer command's help: description, then example."""
    example = getattr(parser, "example", "")
    text = (parser.description or told).strip()
    text = f"{text[:1].upper()}{text[1:]}"
    return f"{text}\n\nExample: {example}" if example else text


def _argparse_row(action: argparse.Action) -> tuple[str, str, str]:
    is_flag = action.nargs == 0
    value = "" if is_flag else f" {_metavar(action)}"
    names = [f"`{name}{value}`" for name in action.option_strings] or [f"`{_metavar(action)}`"]
    default = "" if is_flag else _value(action.default)
    required = action.required and bool(action.option_strings)
    return ", ".join(names), "must be given" if required else default, _paragraph(action.help)


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "|".join(str(choice) for choice in action.choices)
    return action.dest.upper().replace("_", "-")


def _benchmarks() -> Iterator[Command]:
    for kind, parser in {
        "": bench._parser(),
        " group": group_bench._parser(),
        " log": log_bench._parser(),
        " spark": spark_bench._parser(),
        " transactions": transactions_bench._parser(),
    }.items():
        yield from _argparse_commands(parser, f"strandline bench{kind}", "")


def _argument(name: str, required: bool) -> str:
    return name if required or name.startswith("[") else f"[{name}]"


def _value(default: object) -> str:
    text = str(_plain(default))
    return "" if text in UNSAID else f"`{text}`"


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _paragraphs(text: str | None) -> str:
    paragraphs = [_paragraph(each) for each in (text or "").split("\n\n")]
    return "\n\n".join(EXAMPLE.sub(r"Example: `\1`", each) for each in paragraphs)


def _paragraph(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split())
