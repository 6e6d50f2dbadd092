"""A table that is printed while its rows arrive, in bounded memory: the first rows set the widths
of its columns.
"""

import sys
from collections.abc import Sequence
from typing import Final

from strandline_cli.shown.output import write_line

_FIRST_ROWS: Final = 200


class LiveTable:
    """A table with numbers to the right, words to the left; `alarm` shows a row in red at a
    terminal.
    """

    def __init__(self, columns: Sequence[str], *, words: Sequence[str] = ()) -> None:
        self._columns = columns
        self._to_left = [column in words for column in columns]
        self._waiting: list[tuple[list[str], bool]] = []
        self._widths: list[int] | None = None
        self._in_colour = sys.stdout.isatty()

    def row(self, cells: Sequence[object], *, alarm: bool = False) -> None:
        texts = ["" if cell is None else str(cell) for cell in cells]
        if self._widths is not None:
            self._put(texts, alarm)
            return
        self._waiting.append((texts, alarm))
        if len(self._waiting) >= _FIRST_ROWS:
            self.flush()

    def line(self, text: str) -> None:
        """Print a line that belongs to the row before it."""
        self.flush()
        write_line(text)

    def flush(self) -> None:
        """Print the rows that wait for the widths; the header goes before the first row."""
        if self._widths is not None:
            return
        rows = [texts for texts, _ in self._waiting]
        self._widths = [max(map(len, column)) for column in zip(self._columns, *rows, strict=True)]
        header = self._joined(list(self._columns))
        write_line(f"\x1b[1m{header}\x1b[0m" if self._in_colour else header)
        for texts, alarm in self._waiting:
            self._put(texts, alarm)
        self._waiting.clear()

    def _put(self, texts: list[str], alarm: bool) -> None:
        line = self._joined(texts)
        write_line(f"\x1b[31m{line}\x1b[0m" if alarm and self._in_colour else line)

    def _joined(self, texts: list[str]) -> str:
        assert self._widths is not None
        cells = zip(texts, self._widths, self._to_left, strict=True)
        padded = (t.ljust(width) if left else t.rjust(width) for t, width, left in cells)
        return "  ".join(padded).rstrip()
