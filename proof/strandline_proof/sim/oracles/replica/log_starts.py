"""Log starts, after each step of a broker that has moved one.

A log start rises over committed records alone, and durably (I-74). Deleted records stay deleted
(I-75). A follower that its leader's log has left behind restarts at the leader's log start (I-45).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.partition.committed import Committed
    from strandline_proof.sim.oracles.replica.log_view import LogView


class LogStartOracle:
    def __init__(self, sometimes: Counter[str]) -> None:
        self._sometimes = sometimes
        self.on_removed: Callable[[Key, int], object] = lambda key, offset: None
        """Called with the offset below which the records of a partition are deleted now."""
        self._retention_bytes: int | None = None
        self._told: dict[tuple[str, Key], int] = {}
        """The log start that each follower has reported to a leader."""

    def on_retention(self, retention_bytes: int) -> None:
        """The main topic's retention is about to be altered to so many bytes."""
        least = self._retention_bytes
        self._retention_bytes = retention_bytes if least is None else min(least, retention_bytes)

    def on_change(
        self,
        key: Key,
        partition: Partition,
        ghost: Committed,
        view: LogView,
        *,
        opened: bool,
        retained: bool,
    ) -> bool:
        """True if the log has restarted; `opened`: it was just opened and not read yet; `retained`:
        it is of the topic whose retention may be altered.
        """
        start = partition.log.log_start_offset
        how = ghost.on_log_start(
            start,
            view,
            partition.name,
            leads=partition.leader is not None,
            retention_bytes=self._retention_bytes if retained else None,
        )
        if how:
            self._sometimes[how] += 1
            self.on_removed(key, start)
        if opened or start <= view.end:
            return False
        # All its records lie before its leader's log (I-45).
        self._sometimes["log begun again at its leader's start"] += 1
        view.begin_at(start)
        return True

    def on_opened(self, name: str, key: Key, partition: Partition, ghost: Committed) -> None:
        """Another process has opened the log, on the same disk. A log whose restart was cut short
        is empty, and begins anywhere.
        """
        start, told = partition.log.log_start_offset, self._told.get((name, key), 0)
        empty = partition.log.log_end_offset == start
        if start < told and not empty and ghost.permitted is None and not ghost.lost:
            raise Violation(
                "I-75",
                f"{name} {partition.name}: its log begins at {start}, and its leader was told"
                f" {told} by the process before",
            )

    def on_told(self, name: str, key: Key, partition: Partition, start: int, where: str) -> None:
        """A leader counts `start` as the log start of the follower `partition` on node `name`."""
        self._told[name, key] = max(start, self._told.get((name, key), 0))
        if start > partition.log.log_start_offset:
            raise Violation(
                "I-75",
                f"{where}: it counts {start} as the log start of {name}, which is"
                f" {partition.log.log_start_offset}",
            )

    def forget(self, name: str, key: Key) -> None:
        """The replica is gone, with its disk or by a reassignment."""
        self._told.pop((name, key), None)
