"""The programs of a run of transfers: movers and readers, each a process whose lines go into the
book (`strandline_chaos/transfers/book.py`).
"""

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path

from strandline_chaos.transfers.book import Book, NotSaid, Reading
from strandline_cli.nemesis.line_process import LineProcess


class Party(LineProcess):
    """One mover or reader."""

    def __init__(self, name: str, argv: Sequence[str], book: Book, log_file: Path) -> None:
        self.is_ready = threading.Event()
        self.is_paused = threading.Event()
        self._book = book
        super().__init__(name, argv, log_file, listens=True)

    def _take(self, line: bytes) -> None:
        try:
            word = self._book.hear(self.name, line.decode("utf-8", "replace"))
        except NotSaid as why:
            self._broken = self._broken or str(why)
            return
        if word == "ready":
            self.is_ready.set()
        elif word == "paused":
            self.is_paused.set()

    def tell(self, word: str) -> None:
        """Writes `pause`, `go` or `stop`. A program that has ended gets nothing."""
        assert self._process.stdin is not None
        if word == "pause":
            self.is_paused.clear()
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()

    def kill(self) -> None:
        super().kill()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()


def reading_for(book: Book, name: str) -> str:
    """A reader's name, with an empty reading in the book."""
    book.readings[name] = Reading()
    return name
