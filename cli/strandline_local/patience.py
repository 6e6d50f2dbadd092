"""Deadlines for our own processes that count only idle time.

On a busy machine a process may make little progress for a while. Time in which it computes, waits
for a free processor, or reads from the disk is not counted.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_LOOK_S: Final = 0.25
STRETCH: Final = 10
"""Limit of the whole wait as a multiple of the deadline: a process may also loop forever."""

Work = tuple[float, int]
"""Seconds of running and of waiting for a processor; bytes read from the disk."""


class Patience:
    """A deadline that stands still while any of the processes works."""

    def __init__(
        self,
        wait_s: float,
        pids: Callable[[], Iterable[int]],
        *,
        work: "Callable[[int], Work] | None" = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left_s = wait_s
        self._pids = pids
        self._work = work_of if work is None else work
        self._now = now
        self._looked_at = now()
        self._last = self._looked_at + STRETCH * wait_s
        self._before = self._look()

    def is_over(self) -> bool:
        """True if the processes have used up their time."""
        now = self._now()
        passed = now - self._looked_at
        if passed >= min(_LOOK_S, self._left_s):
            work = self._look()
            idle = min(self._idle_s(pid, work[pid], passed) for pid in work) if work else passed
            self._left_s -= idle
            self._looked_at, self._before = now, work
        return self._left_s <= 0 or now >= self._last

    def _look(self) -> dict[int, Work]:
        return {pid: self._work(pid) for pid in self._pids()}

    def _idle_s(self, pid: int, work: Work, passed: float) -> float:
        before = self._before.get(pid)
        # Less work than before: a thread has ended, and its work is no longer counted.
        if before is None or work[1] > before[1] or work[0] < before[0]:
            return 0.0
        return max(0.0, passed - (work[0] - before[0]))


def work_of(pid: int) -> Work:
    """The work of a process so far; zero where the system does not report it."""
    seconds = 0.0
    for thread in _threads_of(pid):
        ran_ns, waited_ns = _numbers(thread / "schedstat")[:2] or (0, 0)
        seconds += (ran_ns + waited_ns) / 1e9
    return seconds, _read_from_disk(pid)


def _threads_of(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # the process has ended
        return []


def _read_from_disk(pid: int) -> int:
    try:
        counters = Path(f"/proc/{pid}/io").read_text()
    except OSError:
        return 0
    return int(counters.partition("\nread_bytes: ")[2].partition("\n")[0] or 0)


def _numbers(file: Path) -> list[int]:
    try:
        return [int(text) for text in file.read_text().split()]
    except (OSError, ValueError):
        return []  # the thread has ended
