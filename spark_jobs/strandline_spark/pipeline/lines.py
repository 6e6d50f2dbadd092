"""The line of each key in a pipeline.toml."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]
"""Path of a key: the tables above it, and the number of a step, like `("gold", 1, "sql")`."""
_KEY: Final = re.compile(r"""((?:[\w.\s-]|"(?:[^"\\]|\\.)*"|'[^']*')+?)\s*=""")
_CLOSES: Final = re.compile(r"""\"{3}|'{3}|[]}]""")
"""Signs that the last line of a value of several lines has."""
_LONG_TEXT: Final = re.compile(r"""=\s*(?:\"{3}|'{3})\s*\Z""")


class Lines:
    """The lines of a sound TOML text, in the order of its statements: the fewest lines each that
    are TOML.
    """

    def __init__(self, text: str) -> None:
        self._at: dict[Path, int] = {(): 1}
        self._text_at: dict[Path, int] = {}
        table: Path = ()
        for line, statement in _statements(text):
            if statement.lstrip().startswith("["):
                table = self._table(tomllib.loads(statement))
                self._at.setdefault(table, line)
            # On many blanks without a key the pattern would not end.
            elif (key := statement.lstrip())[:1] not in ("", "#") and (found := _KEY.match(key)):
                path = (*table, *_names(tomllib.loads(f"{found[1]} = 0")))
                self._at[path] = line
                is_long = _LONG_TEXT.search(statement.partition("\n")[0])
                self._text_at[path] = line + 1 if is_long else line

    def _table(self, header: dict[str, Any]) -> Path:
        """Returns the next table of an array, for a header in double brackets."""
        path: Path = ()
        found: Any = header
        while isinstance(found, dict) and found:
            name, found = next(iter(found.items()))
            path = (*path, name)
            if found and isinstance(found, dict) and (last := self._count(path)):
                # A table below an array of tables is one of its last element.
                path = (*path, last - 1)
        if isinstance(found, list):
            return (*path, self._count(path))
        return path

    def _count(self, path: Path) -> int:
        """Returns the number of tables that an array has so far."""
        number = 0
        while (*path, number) in self._at:
            number += 1
        return number

    def of(self, path: Path) -> int:
        """Returns the line of the key, or of the next one above it that the text shows."""
        while path not in self._at:
            path = path[:-1]
        return self._at[path]

    def of_text(self, path: Path) -> int:
        """Returns the line of the text's first character; a line break behind three quotes does not
        count.
        """
        return self._text_at.get(path) or self.of(path)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yields each statement with the line on which it begins."""
    begun, kept = 1, ""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        may_end = kept == "" or _CLOSES.search(line)
        kept += f"{line}\n"
        if not may_end:
            continue
        try:
            tomllib.loads(kept)
        except tomllib.TOMLDecodeError:
            continue
        yield begun, kept
        begun, kept = number + 1, ""


def _names(nested: Any) -> Path:
    """Returns the names of a dotted key."""
    path: Path = ()
    while isinstance(nested, dict):
        name, nested = next(iter(nested.items()))
        path = (*path, name)
    return path
