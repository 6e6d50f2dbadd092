"""The programs of a run of transfers: movers and readers, each a process whose lines go into the
book (`strandline_chaos/transfers/book.py`).
"""

import contextlib
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline_chaos.transfers.book import Book, NotSaid, Reading
from strandline_cli.errors import CliError

_LAST_S: Final = 10.0
_LOG_LINES: Final = 3


class Party:
    """One mover or reader."""

    def __init__(self, name: str, argv: Sequence[str], book: Book, log_file: Path) -> None:
        self.name = name
        self.is_ready = threading.Event()
        self.is_paused = threading.Event()
        self._book = book
        self._log_file = log_file
        self._broken = ""
        with log_file.open("ab") as log:
            try:
                # A session of its own: Ctrl-C ends it in order, through this process.
                self._process = subprocess.Popen(
                    list(argv),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    text=True,
                )
            except OSError as why:
                raise CliError(f"{name} cannot be started: {argv[0]}: {why.strerror}") from why
        self._listener = threading.Thread(target=self._listen, name=name, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                try:
                    word = self._book.hear(self.name, line)
                except NotSaid as why:
                    self._broken = self._broken or str(why)
                    continue
                if word == "ready":
                    self.is_ready.set()
                elif word == "paused":
                    self.is_paused.set()

    def tell(self, word: str) -> None:
        """Writes `pause`, `go` or `stop`. What has ended hears nothing."""
        assert self._process.stdin is not None
        if word == "pause":
            self.is_paused.clear()
        with contextlib.suppress(OSError):
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()

    def why_ended(self) -> str:
        """The reason why the program cannot go on; empty while it runs."""
        if self._broken:
            return self._broken
        status = self._process.poll()
        if status is None:
            return ""
        lines = self._log_file.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return f"{self.name} ended with exit status {status}: {' / '.join(lines) or 'no word'}"

    def wait(self, deadline_s: float) -> bool:
        """Waits for the end of the program and of its lines; False if it does not come."""
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return False
        self._listener.join(deadline_s)
        return not self._listener.is_alive()

    @property
    def status(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """Ends the process now, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._listener.join(_LAST_S)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()


def reading_for(book: Book, name: str) -> str:
    """A reader's name, with an empty reading in the book."""
    book.readings[name] = Reading()
    return name
