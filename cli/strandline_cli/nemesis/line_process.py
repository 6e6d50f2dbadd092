"""A process of a chaos run whose lines are taken one by one, on a thread."""

import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline_cli.errors import CliError

_LAST_S: Final = 10.0
_LOG_LINES: Final = 3


class LineProcess(ABC):
    """Runs `argv` with its errors in a log. `_broken` says why its lines cannot be used. Raises
    CliError if the program cannot be started.
    """

    def __init__(self, name: str, argv: Sequence[str], log_file: Path, *, listens: bool) -> None:
        self.name = name
        self._log_file = log_file
        self._broken = ""
        with log_file.open("ab") as log:
            try:
                # A session of its own: Ctrl-C ends it in order, through this process.
                self._process = subprocess.Popen(
                    list(argv),
                    stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as why:
                raise CliError(f"{name} cannot be started: {argv[0]}: {why.strerror}") from why
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    @abstractmethod
    def _take(self, line: bytes) -> None:
        """Takes the next line; called on the thread."""

    def _is_reason(self, line: str) -> bool:
        """True for a line of the log that may say why the process has ended."""
        return bool(line.strip())

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._take(line)

    def why_ended(self) -> str:
        """The reason why the process cannot go on; empty while it runs."""
        if self._broken:
            return self._broken
        status = self._process.poll()
        if status is None:
            return ""
        lines = self._log_file.read_text(errors="replace").splitlines()
        last = [line for line in lines if self._is_reason(line)][-_LOG_LINES:]
        return f"{self.name} ended with exit status {status}: {' / '.join(last) or 'no word'}"

    def wait(self, deadline_s: float) -> bool:
        """Waits for the end of the process and of its lines; False if it does not come."""
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join(deadline_s)
        return not self._reader.is_alive()

    @property
    def status(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """Ends the process now, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._reader.join(_LAST_S)
