"""A parser of options whose help looks like that of `strandline`: usage, text, example, arguments,
commands by section, options. Errors are one line with the way to the help.
"""

import argparse
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

WIDTH: Final = 80
_EXIT_USAGE: Final = 2
_COLUMN_MAX: Final = 32
"""The widest left column; what is longer stands on a line of its own."""


class CommandParser(argparse.ArgumentParser):
    """Parsers of subcommands are of this class too."""

    def __init__(
        self,
        prog: str | None = None,
        *,
        example: str = "",
        rows: Mapping[str, Mapping[str, str]] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(prog, add_help=False, **more)
        self.example = example
        """A command line that shows the usual use."""
        self.rows = rows or {}
        """Sections of names and their meanings, before the options."""
        self.sections: Mapping[str, Sequence[str]] = {}
        """Sections of the help, with the names of their commands; the rest stands last."""
        self.add_argument("-h", "--help", action="help", help="show this message and exit")

    def format_usage(self) -> str:
        if self.usage is not None:
            return f"Usage: {self.usage % {'prog': self.prog}}\n"
        words = [self.prog, "[OPTIONS]"]
        for action in _positional(self):
            if isinstance(action, argparse._SubParsersAction):
                words.append(f"{_name(action)} [ARGS]...")
            elif action.help is not argparse.SUPPRESS:
                name = _name(action)
                words.append(f"[{name}]" if action.nargs in ("?", "*") else name)
        return f"Usage: {' '.join(words)}\n"

    def format_help(self) -> str:
        parts = [self.format_usage()]
        example = f"Example: {self.example}" if self.example else ""
        texts = (_sentence(self.description or ""), example)
        parts += [_paragraph(text) for text in texts if text]
        arguments = []
        for action in _positional(self):
            if isinstance(action, argparse._SubParsersAction):
                parts += self._commands(action)
            elif action.help not in (None, argparse.SUPPRESS):
                arguments.append((_name(action), _help(self, action)))
        options = [
            (_option(action), _help(self, action))
            for action in self._actions
            if action.option_strings and action.help is not argparse.SUPPRESS
        ]
        parts.append(_section("Arguments", arguments))
        for title, rows in self.rows.items():
            parts.append(_section(title, [(name, _sentence(said)) for name, said in rows.items()]))
        parts.append(_section("Options", options))
        return "\n".join(part for part in parts if part)

    def _commands(self, action: Any) -> list[str]:
        said = {choice.dest: _sentence(choice.help or "") for choice in action._choices_actions}
        placed = [name for names in self.sections.values() for name in names]
        sections = {**self.sections, "Commands": [name for name in said if name not in placed]}
        width = max(map(len, said))
        return [
            _section(section, [(name.ljust(width), said[name]) for name in names])
            for section, names in sections.items()
        ]

    def error(self, message: str) -> NoReturn:
        """Ends the process with status 2 and one line."""
        print(f"error: {message} (see `{self.prog} --help`)", file=sys.stderr)  # noqa: T201
        sys.exit(_EXIT_USAGE)


def _positional(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    return (action for action in parser._actions if not action.option_strings)


def _name(action: argparse.Action) -> str:
    """The name of an argument's value: its metavar, or its choices."""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
        return "[" + "|".join(map(str, action.choices)) + "]"
    return action.dest.upper().replace("_", "-")


def _option(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {_name(action)}"


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    values = {**vars(action), "prog": parser.prog}
    text = _sentence((action.help or "") % values)
    return f"{text}  [required]" if action.required and action.option_strings else text


def _sentence(text: str) -> str:
    """The text with a capital letter and a period, unless it ends with a command line."""
    if not text:
        return ""
    end = "" if text.endswith((".", "`", "?")) else "."
    word = text.split(maxsplit=1)[0].rstrip(",;:")
    first = text[0].upper() if word.replace("'", "").replace("-", "").isalpha() else text[0]
    return f"{first}{text[1:]}{end}"


def _paragraph(text: str) -> str:
    words = " ".join(text.split())
    return (
        textwrap.fill(
            words,
            WIDTH - 2,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


def _section(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A title and its rows in two columns; empty without rows."""
    if not rows:
        return ""
    column = min(max(len(left) for left, _ in rows), _COLUMN_MAX) + 4
    lines = [f"{title}:"]
    for left, right in rows:
        room = max(20, WIDTH - 2 - column)
        broken = textwrap.wrap(right, room, break_long_words=False, break_on_hyphens=False)
        if len(left) + 4 > column:
            lines.append(f"  {left}")
        else:
            lines.append(f"  {left}".ljust(column) + (broken.pop(0) if broken else ""))
        lines += [" " * column + line for line in broken]
    return "\n".join(line.rstrip() for line in lines) + "\n"
