"""The workload of a chaos run: a process whose history comes line by line, read by a thread."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from strandline_chaos.history import Event
from strandline_cli.errors import CliError
from strandline_cli.nemesis.line_process import LineProcess


class WorkloadProcess(LineProcess):
    """Keeps the events of the workload, and counts acknowledged records by key."""

    def __init__(self, argv: Sequence[str], log_file: Path) -> None:
        self.events: list[Event] = []
        self.acknowledged: Counter[int] = Counter()
        super().__init__("the workload", argv, log_file, listens=False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def note(self, f: str, value: object) -> None:
        """An event of the run itself, in the history at this time."""
        self.events.append(Event(-1, time.monotonic_ns(), 0, "info", f, value))

    def _take(self, line: bytes) -> None:
        try:
            event = Event(**json.loads(line))
        except (ValueError, TypeError) as why:
            self._broken = f"no event of a history: {line[:80]!r} ({why})"
            return
        self.events.append(event)
        if event.f == "send" and event.type == "ok":
            self.acknowledged[event.value[0][1]] += 1

    def _is_reason(self, line: str) -> bool:
        return super()._is_reason(line) and " s left, " not in line

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
