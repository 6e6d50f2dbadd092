"""The help of every command and group: an example that the command accepts, a summary that is not
cut at 80 columns, a section, and one spelling for a partition.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer

from strandline_cli.app import _sections, build_app
from strandline_cli.shown.help_page import SECTIONS, summary

PREFIX: Final = "Example: strandline "
LINE_MAX: Final = 78
OWN_OPTIONS: Final = {("bench",)}
"""Commands whose options this parser does not know."""
ROOT: Final[Any] = typer.main.get_command(build_app())


def everything(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each group and each command, by its words."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from everything(child, (*path, name))


ALL: Final = dict(everything(ROOT))
COMMANDS: Final = {path: c for path, c in ALL.items() if not hasattr(c, "commands")}
GROUPS: Final = {path: c for path, c in ALL.items() if hasattr(c, "commands")}


def example_of(path: tuple[str, ...]) -> list[str]:
    """The words of the example at the end of a help text, after `strandline`."""
    example = (ALL[path].help or "").strip().splitlines()[-1]
    assert example.startswith(PREFIX)
    assert len(example) <= LINE_MAX, "a terminal would break the line"
    return shlex.split(re.split(" <| && ", example.removeprefix(PREFIX))[0])


def page(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> str:
    """The help at a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    context = typer.Context(ALL[path], info_name=" ".join(["strandline", *path]))
    text: str = ALL[path].get_help(context)
    return text


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_command_accepts_the_example_in_its_help(path: tuple[str, ...]) -> None:
    words = example_of(path)
    assert tuple(words[: len(path)]) == path
    called = max((p for p in COMMANDS if tuple(words[: len(p)]) == p), key=len)
    if called not in OWN_OPTIONS:
        COMMANDS[called].make_context(" ".join(called), words[len(called) :])


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_no_summary_is_cut_or_broken_at_80_columns(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = page(path, monkeypatch).splitlines()
    assert all(len(line) <= 80 for line in lines)
    for name, child in ALL[path].commands.items():
        said = summary(child.help)
        assert said.endswith("."), name
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.split(maxsplit=1)[1] == said


def test_every_command_stands_in_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuple(_sections()) == SECTIONS
    text = page((), monkeypatch)
    assert [line[:-1] for line in text.splitlines() if re.fullmatch(r"\S.*:", line)] == [
        "Options",
        *SECTIONS,
    ]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_partition_is_spelt_in_one_way(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`TOPIC:P`, also with several; `--partition` alone takes the number apart."""
    text = page(path, monkeypatch)
    assert not re.search(r"TOPIC[:/-]PARTITION|TOPIC[/-]P\b|\bTOPIC PARTITION\b", text)
    assert not re.search(r"\w+/\d+\b(?!\.)", " ".join(example_of(path)))
    for parameter in COMMANDS[path].params:
        if parameter.name in ("partition", "place") and parameter.metavar is not None:
            assert parameter.metavar == "TOPIC:P"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_means(path: tuple[str, ...]) -> None:
    for parameter in COMMANDS[path].params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            said = parameter.help or ""
            assert said.endswith("."), f"{parameter.opts}: {said!r}"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One thing.\n\nMore.", "One thing."),
        ("One\nthing. Another.", "One thing."),
        ("Nothing but this", "Nothing but this"),
        ("Reads A to Z... and ends.", "Reads A to Z... and ends."),
        (None, ""),
    ],
)
def test_a_summary_is_the_first_sentence(text: str | None, first: str) -> None:
    assert summary(text) == first
