"""The timeline of a run, for people: log lines of every node, faults, decisions, by time."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_proof.sim.loop.loop import SimLoop

TOLD: Final = {
    "a controller push does not follow; asking for all": "snapshot asked for after a gap",
    "a controller push is refused": "stale push refused",
    "damaged": "damage noticed",
    "fetch refused": "fetch refused",
    "fetching stopped": "fetch of an old epoch fenced",
    "stray replica set aside": "stray set aside",
    "the controller stalled": "controller noticed its own stall",
}
"""Log lines and the event of each, in the words of a sweep's table."""
LINES_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    time_s: float
    node: str
    level: str
    event: str
    fields: dict[str, object]

    def __str__(self) -> str:
        fields = dict(self.fields)
        error = fields.pop("exc_info", None)
        text = f"{self.time_s:11.6f}  {self.node:<12} {self.level:<7} {self.event}"
        text += "".join(f" {key}={value}" for key, value in fields.items())
        if isinstance(error, BaseException):
            text += "\n" + "".join(traceback.format_exception(error))
        return text


class Timeline:
    """The timeline. `add` also makes the event part of the run's digest. Fields may name addresses
    of objects, so the digest leaves them out.
    """

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.lines: list[Line] = []
        self.closed = False

    def add(self, node: str, level: str, event: str, fields: dict[str, object]) -> None:
        if self.closed:
            return
        self._loop.record(f"{node} {level} {event}")
        if len(self.lines) < LINES_MAX:
            self.lines.append(Line(self._loop.now, node, level, event, fields))

    def told(self) -> Counter[str]:
        """The number of times that nodes logged each of the events."""
        return Counter(TOLD[line.event] for line in self.lines if line.event in TOLD)

    def text(self, nodes: Iterable[str] = ()) -> str:
        """All lines, or those of some nodes and of the harness."""
        wanted = set(nodes)
        shown = [str(li) for li in self.lines if not wanted or li.node in wanted or li.node == "*"]
        return "\n".join(shown)


class SimLog:
    """structlog's calling convention over the timeline."""

    def __init__(self, timeline: Timeline, node: str, bound: dict[str, object]) -> None:
        self._timeline = timeline
        self._node = node
        self._bound = bound

    def bind(self, **fields: object) -> SimLog:
        return SimLog(self._timeline, self._node, self._bound | fields)

    def _add(self, level: str, event: str, fields: dict[str, Any]) -> None:
        self._timeline.add(self._node, level, event, self._bound | fields)

    def debug(self, event: str, **fields: object) -> None:
        """Keeps only roles: a broker may log them in sum, and a test looks at each."""
        if event == "role":
            self._add("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._add("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._add("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._add("error", event, fields)
