"""A history of the live workload in which every promise is kept: two keys, a writer, a reader, two
groups with commits, a fault, and the last reading.
"""

from __future__ import annotations

from strandline_chaos.checkers import FINAL_READ
from strandline_chaos.faults.verdict import FAULT
from strandline_chaos.group_checker import COMMIT, COMMITTED, GROUP_FINAL, GROUP_POLL, MEMBER
from strandline_chaos.history import Event, History

KEYS = (0, 1)
RECORDS = 6
GROUPS = ("first", "second")


class GoodRun:
    """A run in which every promise is kept, told step by step; each call takes 100 ms."""

    def __init__(self) -> None:
        self._now_ns = 0
        self.history = History(None, self._tick)
        self.writer, self.reader = (self.history.new_process() for _ in range(2))
        self.members = {name: self.join(name) for name in GROUPS}

    def _tick(self) -> int:
        self._now_ns += 100_000_000
        return self._now_ns

    def join(self, group: str) -> int:
        process = self.history.new_process()
        self.history.note(MEMBER, [process, group])
        return process

    def send(self, key: int, value: int, offset: int) -> None:
        op = self.history.invoke_send(self.writer, key, value)
        self.history.sent(self.writer, op, key, value, offset)

    def read(self, runs: dict[int, list[tuple[int, int]]], process: int | None = None) -> None:
        by = self.reader if process is None else process
        self.history.polled(by, self.history.invoke_poll(by), runs)

    def consume(self, group: str, runs: dict[int, list[tuple[int, int]]]) -> None:
        process, history = self.members[group], self.history
        told = [[key, [list(pair) for pair in pairs]] for key, pairs in runs.items()]
        op = history.invoke(process, GROUP_POLL, [["poll"]])
        history.end(process, op, "ok", GROUP_POLL, [["poll", told]])
        ends = [[key, pairs[-1][0] + 1] for key, pairs in runs.items()]
        op = history.invoke(process, COMMIT, ends)
        history.end(process, op, "ok", COMMIT, ends)

    def query(self, group: str, offsets: dict[int, int], process: int | None = None) -> None:
        by = self.members[group] if process is None else process
        op = self.history.invoke(by, COMMITTED, sorted(offsets))
        self.history.end(by, op, "ok", COMMITTED, [list(pair) for pair in offsets.items()])

    def fault(self, number: int, kind: str, phase: str) -> None:
        told = {"number": number, "kind": kind, "victims": ["broker-1"], "detail": ""}
        self.history.note(FAULT, {**told, "phase": phase})

    def last_reading(self, logs: dict[int, list[tuple[int, int]]]) -> None:
        process = self.history.new_process()
        self.history.note(FINAL_READ, [process])
        self.read(logs, process)

    def last_queries(self, offsets: dict[int, int]) -> None:
        for group in GROUPS:
            process = self.join(group)
            self.history.note(GROUP_FINAL, [process])
            self.query(group, offsets, process)


def logs(first: int, last: int) -> dict[int, list[tuple[int, int]]]:
    """Each value stands at the offset of its own number."""
    return {key: [(offset, offset) for offset in range(first, last)] for key in KEYS}


def good_history() -> list[Event]:
    run = GoodRun()
    for part in range(2):
        first, last = part * RECORDS // 2, (part + 1) * RECORDS // 2
        for offset in range(first, last):
            for key in KEYS:
                run.send(key, offset, offset)
        run.read(logs(first, last))
        if part == 0:
            run.fault(1, "kill", "begin")
            run.fault(1, "kill", "end")
        for group in GROUPS:
            run.consume(group, logs(first, last))
            run.query(group, dict.fromkeys(KEYS, last))
    run.last_reading(logs(0, RECORDS))
    run.last_queries(dict.fromkeys(KEYS, RECORDS))
    return run.history.events
