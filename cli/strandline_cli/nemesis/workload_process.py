"""The workload of a chaos run: a process whose history comes line by line, read by a thread."""

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline_chaos.history import Event
from strandline_cli.errors import CliError

_LAST_S: Final = 10.0


class WorkloadProcess:
    """Runs `argv`; keeps the events, and counts acknowledged records by key."""

    def __init__(self, argv: Sequence[str], log_file: Path) -> None:
        self.events: list[Event] = []
        self.acknowledged: Counter[int] = Counter()
        self._log_file = log_file
        self._broken = ""
        with log_file.open("ab") as log:
            # A session of its own: Ctrl-C ends it in order, through this process.
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name="history", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def note(self, f: str, value: object) -> None:
        """An event of the run itself, in the history at this time."""
        self.events.append(Event(-1, time.monotonic_ns(), 0, "info", f, value))

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = Event(**json.loads(line))
        except (ValueError, TypeError) as why:
            self._broken = f"no event of a history: {line[:80]!r} ({why})"
            return
        self.events.append(event)
        if event.f == "send" and event.type == "ok":
            self.acknowledged[event.value[0][1]] += 1

    def why_ended(self) -> str:
        """The reason why the workload has ended; empty while it runs."""
        if self._broken:
            return self._broken
        status = self._process.poll()
        if status is None:
            return ""
        lines = [
            line
            for line in self._log_file.read_text(errors="replace").splitlines()
            if line.strip() and " s left, " not in line
        ]
        return (
            f"the workload ended with exit status {status}: {' / '.join(lines[-3:]) or 'no word'}"
        )

    def wait(self, deadline_s: float) -> bool:
        """Wait for the end of the process and of its history; False if it does not come."""
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
        """End the process now."""
        self._process.kill()
        self._process.wait()
        self._reader.join(_LAST_S)

    def history(self) -> list[Event]:
        """All events in the order of their time, numbered."""
        ordered = sorted(self.events, key=lambda event: event.time_ns)
        return [
            Event(
                index,
                event.time_ns,
                event.process,
                event.type,
                event.f,
                event.value,
                event.op,
                event.error,
                event.node,
            )
            for index, event in enumerate(ordered)
        ]


def save_history(events: Sequence[Event], path: Path) -> None:
    """One line of JSON for each event."""
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(event.line() + "\n" for event in events)
    except OSError as why:
        raise CliError(f"cannot write the history to {path}: {why.strerror}") from why
