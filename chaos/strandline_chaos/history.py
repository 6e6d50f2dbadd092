"""The history of a run: one line of JSON for each start and end of a client's operation.

The vocabulary is the Jepsen queue workload's. A key is the number of a partition; a value is an
integer that is sent once.

- `invoke` opens an operation.
- `ok` means that it happened, `fail` that it certainly did not, `info` that the outcome is unknown.
- `index` is the total order of observation.
- `process` is one client: after an unknown outcome the client is dropped, and the next one is
  another process.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

EventType = Literal["invoke", "ok", "fail", "info"]

Positioned = tuple[int, int]
"""(offset, value) of a read or acknowledged record."""


@dataclass(frozen=True, slots=True)
class Event:
    index: int
    time_ns: int
    process: int
    type: EventType
    f: str
    value: Any
    """The event's value as in the JSON: `[["send", key, value]]`, `[["send", key, [offset,
    value]]]`, `[["poll", [[key, [[offset, value], ...]], ...]]]`, `[["ends", [[key, end], ...]]]`,
    or the description of a fault.
    """
    op: int = -1
    """Number of the operation that this event opens or closes; -1 for an event without one."""
    error: str | None = None
    node: int | None = None

    def line(self) -> str:
        """One line of the file, without its end."""
        fields: dict[str, Any] = {
            "index": self.index,
            "time_ns": self.time_ns,
            "process": self.process,
            "type": self.type,
            "f": self.f,
            "value": self.value,
            "op": self.op,
        }
        if self.error is not None:
            fields["error"] = self.error
        if self.node is not None:
            fields["node"] = self.node
        return json.dumps(fields, separators=(",", ":"))


class History:
    """Writes events in the order of the calls; without `write` it only keeps them."""

    def __init__(self, write: Callable[[str], object] | None, now_ns: Callable[[], int]) -> None:
        self._write = write
        self._now_ns = now_ns
        self.events: list[Event] = []
        self._processes = 0
        self._operations = 0

    def new_process(self) -> int:
        """A new client's number."""
        self._processes += 1
        return self._processes

    def invoke_send(self, process: int, key: int, value: int) -> int:
        """Note the start of a send; returns the number of the operation."""
        return self._open(process, "send", [["send", key, value]])

    def sent(self, process: int, op: int, key: int, value: int, offset: int | None) -> None:
        """Note that the send was acknowledged; `offset` is None if the broker no longer knew it."""
        self._add(process, "ok", "send", [["send", key, [offset, value]]], op)

    def not_sent(
        self, process: int, op: int, key: int, value: int, *, maybe: bool, error: str
    ) -> None:
        """Note that the send was not acknowledged; `maybe` means that it may have happened
        nevertheless.
        """
        kind: EventType = "info" if maybe else "fail"
        self._add(process, kind, "send", [["send", key, value]], op, error=error)

    def invoke_poll(self, process: int) -> int:
        """Note the start of a poll; returns the number of the operation."""
        return self._open(process, "poll", [["poll"]])

    def polled(self, process: int, op: int, read: Mapping[int, Sequence[Positioned]]) -> None:
        """Note the end of a poll and its records, in this order for each key."""
        runs = [[key, [list(pair) for pair in pairs]] for key, pairs in sorted(read.items())]
        self._add(process, "ok", "poll", [["poll", runs]], op)

    def poll_failed(self, process: int, op: int, error: str) -> None:
        """Note that the poll ended with an error."""
        self._add(process, "fail", "poll", [["poll"]], op, error=error)

    def invoke_ends(self, process: int) -> int:
        """Note that a client asks for the end of each key; returns the number of the operation."""
        return self._open(process, "ends", [["ends"]])

    def ended(self, process: int, op: int, ends: Mapping[int, int]) -> None:
        """Note the answer with the ends."""
        told = [[key, end] for key, end in sorted(ends.items())]
        self._add(process, "ok", "ends", [["ends", told]], op)

    def invoke(self, process: int, f: str, value: Any) -> int:
        """Note the start of another operation; returns the number of the operation."""
        return self._open(process, f, value)

    def end(
        self, process: int, op: int, kind: EventType, f: str, value: Any, error: str | None = None
    ) -> None:
        """Note the end of an operation that `invoke` opened."""
        self._add(process, kind, f, value, op, error=error)

    def note(self, f: str, value: Any, *, node: int | None = None) -> None:
        """Note an event that is no client's operation: a fault, a phase of the run."""
        self._add(0, "info", f, value, -1, node=node)

    def _open(self, process: int, f: str, value: Any) -> int:
        self._operations += 1
        self._add(process, "invoke", f, value, self._operations)
        return self._operations

    def _add(
        self,
        process: int,
        kind: EventType,
        f: str,
        value: Any,
        op: int,
        *,
        error: str | None = None,
        node: int | None = None,
    ) -> None:
        event = Event(
            len(self.events), self._now_ns(), process, kind, f, value, op, error=error, node=node
        )
        self.events.append(event)
        if self._write is not None:
            self._write(event.line() + "\n")


def read_history(lines: Iterable[str]) -> list[Event]:
    """The events of a file. A last line that a crash cut off is left out."""
    events: list[Event] = []
    cut_off: str | None = None
    for line in lines:
        if cut_off is not None:
            raise ValueError(f"line {len(events) + 1} of the history is not JSON: {cut_off!r}")
        try:
            events.append(Event(**json.loads(line)))
        except json.JSONDecodeError:
            cut_off = line
    return events
