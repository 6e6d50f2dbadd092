"""The arrival of rows in a silver table, by its log: for each partition the time of the last commit
with rows, and whether its newest range ended before the high watermark of that moment.

A process reads each entry of the log once. It reads backwards as far as a question needs, and later
only what was committed since.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.bronze.commits import from_metadata
from strandline_spark.bronze.fenced_table import METADATA_KEY
from strandline_spark.delta_log.entries import entry_path, infos_from

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.delta_log.table_log import Snapshot

_MILLISECOND: Final = 1000


class Arrivals:
    """The arrivals of one table, up to one version of it."""

    def __init__(self, state: Snapshot) -> None:
        self.lineage = state.lineage
        self.version = state.version
        self._path = state.path
        self._backlog: dict[TopicPartition, bool] = {}
        self._came: dict[TopicPartition, int] = {}
        """The time in milliseconds."""
        self._older: Iterator[tuple[int, dict[str, Any]]] = infos_from(state.path, state.version)
        """Entries that were not read yet, from newer to older ones."""
        self._since: int | None = None
        """Time of the oldest entry that was read, in milliseconds."""

    def follow(self, state: Snapshot) -> bool:
        """Takes what was committed up to the state. False if it cannot."""
        if self.lineage is not state.lineage or state.version < self.version:
            return False
        behind = state.version - self.version
        newer = list(itertools.islice(infos_from(state.path, state.version), behind))
        if len(newer) != behind:
            return False
        for version, info in reversed(newer):
            for one in self._ranges(version, info):
                self._backlog[one.tp] = _has_backlog(one)
                if one.rows > 0:
                    self._came[one.tp] = int(info["timestamp"])
            if self._since is None:
                self._since = int(info.get("timestamp", 0))
        self.version = state.version
        return True

    def backlog(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, bool]:
        """Returns, for each partition that the log still has, True if its newest range ended before
        its high watermark then. It reads no further back than these `partitions` need.
        """
        while not self._backlog.keys() >= set(partitions) and self._read_one():
            pass
        return dict(self._backlog)

    def since(self, time: int) -> set[TopicPartition] | None:
        """Returns the partitions of which a commit since that time, in microseconds, brought rows;
        None if the log begins later.
        """
        while self._since is None or self._since * _MILLISECOND >= time:
            if not self._read_one():
                return None
        return {tp for tp, came in self._came.items() if came * _MILLISECOND >= time}

    def _read_one(self) -> bool:
        """Reads one older entry. False if the log has none."""
        found = next(self._older, None)
        if found is None:
            return False
        version, info = found
        for one in self._ranges(version, info):
            self._backlog.setdefault(one.tp, _has_backlog(one))
            if one.rows > 0:
                self._came.setdefault(one.tp, int(info["timestamp"]))
        if "timestamp" in info:
            self._since = int(info["timestamp"])
        return True

    def _ranges(self, version: int, info: dict[str, Any]) -> Any:
        if info.get(METADATA_KEY) is None:
            return ()
        return from_metadata(info[METADATA_KEY], entry_path(self._path, version)).ranges


def _has_backlog(one: Any) -> bool:
    known = one.high_watermark
    return known is not None and one.end < known
