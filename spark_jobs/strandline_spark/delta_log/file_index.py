"""The data files of a silver table in columns: partition, offsets and event times of each.

A table may have hundreds of thousands of files. The list is read once in a process. Later it takes
the entries of the log that came since, and a search is one comparison of arrays.

Delta keeps times in a file's statistics as milliseconds or microseconds. So a bound that is a whole
millisecond may stand for any microsecond of it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.delta_log.entries import read_entry
from strandline_spark.source.schema import TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from strandline_spark.delta_log.entries import Action
    from strandline_spark.delta_log.table_log import Snapshot

_MILLISECOND: Final = 1000
_LEAST: Final = -(1 << 63)
_FIELDS: Final = ("file", "tp", "offset_min", "offset_max", "rows", "is_timed", "time_min")
_MORE: Final = ("time_max", "time_seen")
_PLACES: Final = {name: n for n, name in enumerate((*_FIELDS, *_MORE))}
_ENTRIES_MAX: Final = 10_000
"""Entries of the log that are followed; beyond them the whole list is cheaper."""


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of one partition in a file. Bounds are inclusive."""

    tp: TopicPartition
    offset_min: int
    offset_max: int
    time_min: int | None
    """Earliest event time, in microseconds; None, like the next, if all are null."""
    time_max: int | None
    time_seen: int | None
    """At least one row is this late; less than a millisecond before `time_max`."""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class SilverFile:
    """One file, under the table's folder."""

    path: str
    spans: tuple[Span, ...]
    ingest_date: str | None = None

    @property
    def values(self) -> dict[str, str | None]:
        """Returns the values of the table's partition columns."""
        return {"topic": self.spans[0].tp.topic, "ingest_date": self.ingest_date}


class FileIndex:
    """The files of one table at one version."""

    def __init__(self, state: Snapshot, measure: Callable[[str, str], Iterable[Span]]) -> None:
        """Reads the whole list. `measure` reads the spans of a file whose statistics are
        incomplete, by its path and topic.
        """
        self.lineage = state.lineage
        self.version = state.version
        self._measure = measure
        self._paths: list[str] = []
        self._dates: list[str | None] = []
        self._numbers: dict[str, int] | None = None
        self._tps: list[TopicPartition] = []
        self._tp_numbers: dict[TopicPartition, int] = {}
        self._spans = np.empty((len(_PLACES), 0), np.int64)
        self._length = 0
        self._is_there = np.empty(0, bool)
        self._take_all(pa.table(state.handle().get_add_actions(flatten=True)))

    def follow(self, state: Snapshot) -> bool:
        """Takes the entries of the log up to the state. False if it cannot."""
        behind = state.version - self.version
        if self.lineage is not state.lineage or not 0 <= behind <= _ENTRIES_MAX:
            return False
        for version in range(self.version + 1, state.version + 1):
            actions = read_entry(state.path, version)
            if actions is None:
                return False
            self._take(actions)
            self.version = version
        return True

    def ends_of(self, ends: Mapping[TopicPartition, int]) -> Any:
        """Returns for each span the end of its partition; 0 for one without."""
        return np.array([ends.get(tp, 0) for tp in self._tps], np.int64)[self["tp"]]

    def __getitem__(self, name: str) -> Any:
        """Returns a column of all spans, also of files that have left the table."""
        return self._spans[_PLACES[name], : self._length]

    @property
    def is_there(self) -> Any:
        """True for each span of a file that is part of the table."""
        return self._is_there[: self._length]

    def partitions(self) -> list[TopicPartition]:
        """Returns the partitions that files have rows of, in order."""
        files = np.bincount(self["tp"][self.is_there], minlength=len(self._tps))
        return sorted(self._tps[n] for n in np.flatnonzero(files).tolist())

    def files(self, wanted: Any) -> list[SilverFile]:
        """Returns the files of the table of which a span is `wanted`."""
        numbers = np.unique(self["file"][wanted & self.is_there])
        found = np.flatnonzero(np.isin(self["file"], numbers))
        spans: dict[int, list[Span]] = {}
        for at in found.tolist():
            file, span = self._span(at)
            spans.setdefault(file, []).append(span)
        return [SilverFile(self._paths[n], tuple(own), self._dates[n]) for n, own in spans.items()]

    def all_files(self) -> list[SilverFile]:
        return self.files(np.ones(self._length, bool))

    def latest(self) -> dict[TopicPartition, int | None]:
        """Returns the latest event time of each partition that has files; None without one."""
        timed = self.is_there & (self["is_timed"] == 1)
        latest = np.full(len(self._tps), _LEAST, np.int64)
        np.maximum.at(latest, self["tp"][timed], self["time_seen"][timed])
        has_one = np.bincount(self["tp"][timed], minlength=len(self._tps)) > 0
        numbers = {tp: self._tp_numbers[tp] for tp in self.partitions()}
        return {tp: int(latest[n]) if has_one[n] else None for tp, n in numbers.items()}

    def _span(self, at: int) -> tuple[int, Span]:
        file, tp, first, last, rows, timed, *times = self._spans[:, at].tolist()
        least, most, seen = times if timed else (None, None, None)
        return file, Span(self._tps[tp], first, last, least, most, seen, rows)

    def _take_all(self, actions: Any) -> None:
        columns = {name: actions.column(name) for name in actions.column_names}
        for name in ("min.event_time", "max.event_time"):
            if name in columns:
                columns[name] = columns[name].cast(TIMESTAMP_TYPE).cast(pa.int64())
        rows = len(actions)
        nothing = pa.nulls(rows, pa.int64())

        def column(name: str) -> Any:
            return columns.get(name, nothing)

        least, most = column("min.event_time"), column("max.event_time")
        timed = pc.and_(pc.is_valid(least), pc.is_valid(most))
        all_null = pc.fill_null(
            pc.equal(column("null_count.event_time"), column("num_records")), False
        )
        known = pc.fill_null(pc.equal(column("min.partition"), column("max.partition")), False)
        for one in (
            pc.or_(timed, all_null),
            pc.is_valid(column("min.offset")),
            pc.is_valid(column("max.offset")),
        ):
            known = pc.and_(known, one)
        topics, paths = columns["partition.topic"].to_pylist(), columns["path"].to_pylist()
        mask = np.asarray(known)
        self._paths = paths
        self._dates = [_day(one) for one in columns["partition.ingest_date"].to_pylist()]
        whole = np.zeros((len(_PLACES), int(mask.sum())), np.int64)
        kept = {
            "offset_min": column("min.offset"),
            "offset_max": column("max.offset"),
            "rows": column("num_records"),
            "time_min": least,
            "time_max": most,
        }
        for name, values in kept.items():
            whole[_PLACES[name]] = np.asarray(pc.fill_null(values, 0).cast(pa.int64()))[mask]
        whole[_PLACES["file"]] = np.flatnonzero(mask)
        whole[_PLACES["is_timed"]] = np.asarray(timed)[mask]
        partitions = np.asarray(pc.fill_null(column("min.partition"), 0).cast(pa.int64()))
        whole[_PLACES["tp"]] = [
            self._number_of(TopicPartition(topics[n], int(partitions[n])))
            for n in np.flatnonzero(mask).tolist()
        ]
        self._append(_widened(whole))
        for number in np.flatnonzero(~mask).tolist():
            self._append_measured(number, topics[number])

    def _take(self, actions: Iterable[Action]) -> None:
        """Takes one entry. A file that it replaces leaves the table before the new ones come."""
        gone = [unquote(one["remove"]["path"]) for one in actions if "remove" in one]
        if gone:
            if self._numbers is None:
                self._numbers = {path: n for n, path in enumerate(self._paths)}
            numbers = [self._numbers[path] for path in gone if path in self._numbers]
            self._is_there[: self._length] &= ~np.isin(self["file"], numbers)
        for one in actions:
            if "add" in one:
                self._add(one["add"])

    def _add(self, add: Action) -> None:
        number = len(self._paths)
        self._paths.append(unquote(add["path"]))
        if self._numbers is not None:
            self._numbers[self._paths[-1]] = number
        self._dates.append(_day(add["partitionValues"]["ingest_date"]))
        topic = add["partitionValues"]["topic"]
        found = _stated(add)
        if found is None:
            self._append_measured(number, topic)
            return
        span = np.zeros((len(_PLACES), 1), np.int64)
        partition = int(found.pop("partition"))
        for name, value in {
            **found,
            "file": number,
            "tp": self._number_of(TopicPartition(topic, partition)),
        }.items():
            span[_PLACES[name]] = value
        self._append(_widened(span))

    def _append_measured(self, number: int, topic: str) -> None:
        for one in self._measure(self._paths[number], topic):
            span = np.zeros((len(_PLACES), 1), np.int64)
            values = {
                "file": number,
                "tp": self._number_of(one.tp),
                "offset_min": one.offset_min,
                "offset_max": one.offset_max,
                "rows": one.rows,
                "is_timed": one.time_min is not None,
                "time_min": one.time_min or 0,
                "time_max": one.time_max or 0,
                "time_seen": one.time_seen or 0,
            }
            for name, value in values.items():
                span[_PLACES[name]] = value
            self._append(span)

    def _append(self, spans: Any) -> None:
        end = self._length + spans.shape[1]
        if end > self._spans.shape[1]:
            room = max(end, 2 * self._spans.shape[1])
            more = np.empty((len(_PLACES), room), np.int64)
            more[:, : self._length] = self._spans[:, : self._length]
            there = np.zeros(room, bool)
            there[: self._length] = self.is_there
            self._spans, self._is_there = more, there
        self._spans[:, self._length : end] = spans
        self._is_there[self._length : end] = True
        self._length = end

    def _number_of(self, tp: TopicPartition) -> int:
        found = self._tp_numbers.get(tp)
        if found is None:
            found = self._tp_numbers[tp] = len(self._tps)
            self._tps.append(tp)
        return found


def _widened(spans: Any) -> Any:
    """Returns the spans with bounds of whole milliseconds made wider, and `time_seen`."""
    least, most = spans[_PLACES["time_min"]], spans[_PLACES["time_max"]]
    spans[_PLACES["time_seen"]] = most
    timed = spans[_PLACES["is_timed"]] == 1
    # A writer that cuts off digits moves times before 1970 up.
    least[timed & (least % _MILLISECOND == 0) & (least > _LEAST + _MILLISECOND)] -= _MILLISECOND - 1
    most[timed & (most % _MILLISECOND == 0)] += _MILLISECOND - 1
    return spans


def _stated(add: Action) -> dict[str, int] | None:
    """Returns what the statistics of an added file say; None if they are incomplete."""
    try:
        stats = json.loads(add.get("stats") or "{}")
        least, most = stats.get("minValues") or {}, stats.get("maxValues") or {}
        rows = stats["numRecords"]
        if least["partition"] != most["partition"]:
            return None
        found = {
            "partition": int(least["partition"]),
            "offset_min": int(least["offset"]),
            "offset_max": int(most["offset"]),
            "rows": int(rows),
            "is_timed": 0,
        }
        if least.get("event_time") is not None and most.get("event_time") is not None:
            times = (_micros(one["event_time"]) for one in (least, most))
            return found | {"is_timed": 1, "time_min": next(times), "time_max": next(times)}
        return found if (stats.get("nullCount") or {}).get("event_time") == rows else None
    except (KeyError, TypeError, ValueError):
        return None


def _day(value: Any) -> str | None:
    return None if value is None else sys.intern(str(value))


def _micros(text: str) -> int:
    return int(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64))
