"""A parser whose help and errors look like those of `strandline`."""

import pytest

from strandline_runtime.command_parser import CommandParser

PAGE = """\
Usage: prog [OPTIONS] COMMAND [ARGS]...

  Do one thing.

  Example: prog make it

First:
  make   Make a thing.

Commands:
  break  Break a thing.

Options:
  -h, --help    Show this message and exit.
  --size BYTES  A size, which takes a text that does not fit into one line
                (3).
  --kind [a|b]  host:port stays as it is.  [required]
"""


def parser() -> CommandParser:
    made = CommandParser(prog="prog", description="do one thing", example="prog make it")
    made.add_argument(
        "--size",
        metavar="BYTES",
        default=3,
        type=int,
        help="a size, which takes a text that does not fit into one line (%(default)s)",
    )
    made.add_argument("--kind", choices=("a", "b"), required=True, help="host:port stays as it is")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("break", help="break a thing")
    make = commands.add_parser("make", help="make a thing")
    make.add_argument("it", nargs="?", help="what to make")
    made.sections = {"First": ("make",)}
    return made


def test_a_page_has_usage_text_example_sections_and_options() -> None:
    assert parser().format_help() == PAGE


def test_subcommands_look_the_same() -> None:
    made = parser()
    (commands,) = [a for a in made._actions if a.choices and not a.option_strings]
    assert commands.choices is not None
    make = dict(commands.choices)["make"]
    assert make.format_help() == (
        "Usage: prog make [OPTIONS] [IT]\n\nArguments:\n  IT  What to make.\n\n"
        "Options:\n  -h, --help  Show this message and exit.\n"
    )


@pytest.mark.parametrize("words", [["--kind", "c", "make"], ["make"], ["--kind", "a", "mend"]])
def test_a_mistake_is_one_line_with_the_way_to_the_help(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out) == (2, "")
    (line,) = shown.err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(" (see `prog --help`)")


def test_long_texts_are_wrapped_at_80_columns() -> None:
    made = CommandParser(prog="prog", description="word " * 60, rows={"Rows": {"a": "word " * 30}})
    made.add_argument("--a-very-long-option-that-fills-the-column", metavar="V", help="x " * 90)
    lines = made.format_help().splitlines()
    assert max(map(len, lines)) <= 80
    assert "  --a-very-long-option-that-fills-the-column V" in lines
