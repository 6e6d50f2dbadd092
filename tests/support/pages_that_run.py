"""A page of docs/ whose commands a test runs: its programs and its console blocks, in order.

A block of `python title="FILE"` is a program that the reader saves. A line of a block of `console`
that begins with `$ ` is a command, and the lines below it are its output. There, `...` stands for
any text.
"""

import doctest
import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True, slots=True)
class Program:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the output that the page shows."""

    line: str
    output: str

    def gives(self, output: str) -> bool:
        """True if this output is the page's."""
        return doctest.OutputChecker().check_output(self.output, output, SAME)


def steps(page: Path) -> list[Program | Command]:
    """The programs and commands of a page, from top to bottom."""
    found: list[Program | Command] = []
    for language, title, body in FENCE.findall(page.read_text("utf-8")):
        if language == "console":
            _, *commands = re.split(r"^\$ ", body, flags=re.MULTILINE)
            found += [Command(*_halves(each)) for each in commands]
        elif title:
            found.append(Program(title, body))
    return found


def _halves(command: str) -> tuple[str, str]:
    line, _, output = command.partition("\n")
    return line, output
