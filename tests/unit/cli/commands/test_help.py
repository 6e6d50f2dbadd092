"""The help of every command ends with an example, which the command accepts."""

import shlex
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer

from strandline_cli.app import build_app

PREFIX: Final = "Example: strandline "
LINE_MAX: Final = 78
OWN_OPTIONS: Final = {("bench",)}
"""Commands whose options this parser does not know."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, child in below.items():
        yield from commands(child, (*path, name))


COMMANDS: Final = {
    path: command
    for path, command in commands(typer.main.get_command(build_app()))
    if path not in OWN_OPTIONS
}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_accepts_the_example_in_its_help(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    example = (command.help or "").strip().splitlines()[-1]
    assert example.startswith(PREFIX)
    assert len(example) <= LINE_MAX, "a terminal would break the line"
    words = shlex.split(example.removeprefix(PREFIX).partition(" <")[0])
    assert tuple(words[: len(path)]) == path
    command.make_context(" ".join(path), words[len(path) :])
