"""The data files of a fenced table, by partition, with the bounds of their offsets and event times.

A table may have hundreds of thousands of files. So a list that is kept follows the entries of the
log that came since, and reads all of it only if it cannot.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.stores.files import lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_spark.bronze.commits import CommittedRange
    from strandline_spark.bronze.fenced_table import FencedTable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = -(1 << 63)
_ENTRIES_MAX: Final = 1_000
"""Entries of the log that are followed; beyond them the whole list is cheaper."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A data file with its statistics."""

    path: str
    topic: str
    partition: int | None
    """The partition; None, like the next two, if the file's statistics lack it."""
    offset_min: int | None
    offset_max: int | None
    ingest_date: str
    time_max: int | None = None
    """Latest event time in microseconds, rounded up to a millisecond; None if it is not known."""

    def may_hold(self, one: CommittedRange) -> bool:
        if self.topic != one.topic or self.partition not in (None, one.partition):
            return False
        first, last = self.offset_min, self.offset_max
        return first is None or last is None or (first < one.end and last >= one.start)


def files_of(table: FencedTable) -> list[HeldFile]:
    found: list[dict[str, Any]] = pa.table(table.delta.get_add_actions(flatten=True)).to_pylist()
    return [
        HeldFile(
            path=os.path.join(table.path, one["path"]),
            topic=one["partition.topic"],
            partition=_same(one.get("min.partition"), one.get("max.partition")),
            offset_min=one.get("min.offset"),
            offset_max=one.get("max.offset"),
            ingest_date=str(one["partition.ingest_date"]),
            time_max=_time_max(one),
        )
        for one in found
    ]


class HeldFiles:
    """The list of one table's files, which is brought up to date with each handle on it."""

    def __init__(self) -> None:
        self._at: tuple[object, int] | None = None
        """Log and version of the table that the list is of."""
        self._files: dict[tuple[str, int | None], dict[str, HeldFile]] = {}

    def up_to(self, table: FencedTable) -> HeldFiles:
        """Returns this list as of the table's version."""
        lineage, version = table.state.lineage, table.version
        if not self._follow(table, lineage, version):
            self._files = {}
            for file in files_of(table):
                self._add(file)
        self._at = (lineage, version)
        return self

    def near(self, tp: TopicPartition) -> Iterable[HeldFile]:
        """Returns the files that may have rows of the partition."""
        own = (self._files.get((tp.topic, number), {}) for number in (tp.partition, None))
        return chain.from_iterable(files.values() for files in own)

    def partitions(self) -> set[TopicPartition]:
        """Returns the partitions that files are known to have rows of."""
        return {
            TopicPartition(topic, number)
            for (topic, number), files in self._files.items()
            if number is not None and files
        }

    def _add(self, file: HeldFile) -> None:
        self._files.setdefault((file.topic, file.partition), {})[file.path] = file

    def _follow(self, table: FencedTable, lineage: object, version: int) -> bool:
        """Takes the entries of the log since the version of the list. False if it cannot."""
        if self._at is None or self._at[0] is not lineage:
            return False
        if not 0 <= version - self._at[1] <= _ENTRIES_MAX:
            return False
        for number in range(self._at[1] + 1, version + 1):
            try:
                entry = lines(table.log_entry(number))
                actions = [json.loads(line) for line in entry if line.strip()]
            except (OSError, ValueError):
                return False
            for action in actions:
                if "remove" in action:
                    gone = os.path.join(table.path, unquote(action["remove"]["path"]))
                    for files in self._files.values():
                        files.pop(gone, None)
            for action in actions:
                if "add" in action:
                    self._add(_added(table.path, action["add"]))
        return True


def _added(root: str, add: dict[str, Any]) -> HeldFile:
    """Returns the file of an entry of the log."""
    stats = json.loads(add.get("stats") or "{}")
    least, most = stats.get("minValues", {}), stats.get("maxValues", {})
    latest = most.get("event_time")
    values = add["partitionValues"]
    return HeldFile(
        path=os.path.join(root, unquote(add["path"])),
        topic=values["topic"],
        partition=_same(least.get("partition"), most.get("partition")),
        offset_min=least.get("offset"),
        offset_max=most.get("offset"),
        ingest_date=values["ingest_date"],
        time_max=_time_max(
            {
                "max.event_time": None if latest is None else datetime.fromisoformat(latest),
                "null_count.event_time": stats.get("nullCount", {}).get("event_time"),
                "num_records": stats.get("numRecords"),
            }
        ),
    )


def _time_max(file: dict[str, Any]) -> int | None:
    latest = file.get("max.event_time")
    if latest is None:
        all_null = file.get("null_count.event_time") == file.get("num_records") is not None
        return _NEVER if all_null else None
    micros: int = (latest.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    return micros if micros % 1000 else micros + 999


def _same(first: int | None, last: int | None) -> int | None:
    return first if first == last else None
