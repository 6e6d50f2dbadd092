"""A pipeline as its files tell it: the checkpoint of its query, and the commits of its tables.

Neither Spark nor a running job is needed. A table is read again only when it has another version.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from strandline_console.pipelines import Batch, Pipeline, Planned, TableState
from strandline_spark.bronze.checkpoint import read_checkpoint
from strandline_spark.bronze.commits import Commit, from_metadata
from strandline_spark.bronze.fenced_table import METADATA_KEY
from strandline_spark.errors import StrandlineSparkError, first_line
from strandline_spark.gold import account as gold
from strandline_spark.pipeline.config import load_pipeline
from strandline_spark.state import account as state

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from strandline_spark.bronze.checkpoint import Checkpoint
    from strandline_spark.pipeline.config import Pipeline as PipelineFile

    Layer = Literal["bronze", "silver", "state", "gold", "quarantine"]

BATCHES: Final = 20
"""Batches of each table that are shown."""
COMMITS: Final = 60
"""Commits of a table that are looked at: compactions and copies stand between batches."""


class PipelineFiles:
    """Reads the pipeline of one pipeline.toml. Not for two threads at once."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._tables: dict[str, _Table] = {}

    def read(self) -> Pipeline:
        """The pipeline without watermarks: what a topic's leader knows stands in no file."""
        folder = os.path.dirname(self._file)
        try:
            pipeline = load_pipeline(self._file)
        except StrandlineSparkError as why:
            name = os.path.basename(folder) or folder
            return Pipeline(
                name=name, folder=folder, topics=[], tables=[], batches=[], error=str(why)
            )
        tables = [self._table(key, path).read(key, _layer_of(key)) for key, path in pipeline.tables]
        try:
            checkpoint = read_checkpoint(pipeline.checkpoint)
            planned = {} if checkpoint is None else _planned(checkpoint)
            error = None
        except StrandlineSparkError as why:
            checkpoint, planned, error = None, {}, str(why)
        batches = [] if checkpoint is None else self._stream(pipeline, checkpoint)
        for key, _ in pipeline.tables[1:]:
            batches += self._tables[key].batches(key)
        return Pipeline(
            name=pipeline.name,
            folder=folder,
            topics=progress_of(planned, pipeline.topics),
            tables=[table for table in tables if table is not None],
            batches=batches,
            error=error,
        )

    def _table(self, key: str, path: str) -> _Table:
        known = self._tables.get(key)
        if known is None or known.path != path:
            known = self._tables[key] = _Table(path)
        return known

    def _stream(self, pipeline: PipelineFile, checkpoint: Checkpoint) -> list[Batch]:
        """The batches of the query, which bronze takes in: planned, then committed."""
        key = pipeline.tables[0][0]
        committed = {commit.batch_id: commit for commit in self._tables[key].commits}
        found = []
        for number in reversed(checkpoint.planned[-BATCHES:]):
            commit = committed.get(number)
            done = number in checkpoint.done
            found.append(
                Batch(
                    table=key,
                    number=number,
                    state="committed" if done or commit is not None else "planned",
                    at_ms=_planned_ms(checkpoint, number)
                    if commit is None
                    else commit.committed_at_ms,
                    sources=_sources(_ends(checkpoint, number).items()),
                )
            )
        return found


@dataclass(slots=True)
class _Table:
    """One table, as it was when its version was last new."""

    path: str
    version: int | None = None
    rows: int = 0
    files: int = 0
    written_ms: int | None = None
    commits: list[Commit] = field(default_factory=list)
    """Of batches, newest first."""
    closed: list[tuple[gold.GoldAccount, int]] = field(default_factory=list)
    """Of gold windows, with their times, newest first."""
    merged: list[tuple[state.StateAccount, int]] = field(default_factory=list)
    """Of state steps, with their times, newest first."""

    def read(self, key: str, layer: Layer) -> TableState:
        error = None
        try:
            self._refresh()
        except TableNotFoundError:
            self._forget()
        except (DeltaError, OSError, pa.ArrowInvalid, StrandlineSparkError) as why:
            error = f"{self.path} does not read: {first_line(why)}"
            self._forget()
        is_known = self.version is not None
        return TableState(
            name=key,
            layer=layer,
            path=self.path,
            version=self.version,
            rows=self.rows if is_known else None,
            files=self.files if is_known else None,
            batch=self._batch(),
            written_ms=self.written_ms if is_known else None,
            quarantined=self._quarantined(layer) if is_known else None,
            error=error,
        )

    def _forget(self) -> None:
        self.version, self.commits, self.closed, self.merged = None, [], [], []

    def _refresh(self) -> None:
        handle = DeltaTable(self.path)
        version = handle.version()
        if version == self.version:
            return
        actions = pa.table(handle.get_add_actions(flatten=True))
        self.files = actions.num_rows
        self.rows = sum(one or 0 for one in _column(actions, "num_records"))
        history = handle.history(COMMITS)
        self.written_ms = history[0]["timestamp"] if history else None
        self.commits = [
            from_metadata(entry[METADATA_KEY], self.path, entry["version"], entry["timestamp"])
            for entry in history
            if entry.get(METADATA_KEY) is not None
        ]
        self.closed = [
            (
                gold.from_metadata(entry[gold.METADATA_KEY], self.path, entry["version"]),
                entry["timestamp"],
            )
            for entry in history
            if entry.get(gold.METADATA_KEY) is not None
        ]
        self.merged = [
            (
                state.from_metadata(entry[state.METADATA_KEY], self.path, entry["version"]),
                entry["timestamp"],
            )
            for entry in history
            if entry.get(state.METADATA_KEY) is not None
        ]
        self.version = version

    def _batch(self) -> int | None:
        if self.closed:
            return self.closed[0][0].number
        if self.merged:
            return self.merged[0][0].number
        return self.commits[0].batch_id if self.commits else None

    def _quarantined(self, layer: Layer) -> int | None:
        """Rows that the batches which are shown put aside."""
        ranges = [one for commit in self.commits[:BATCHES] for one in commit.ranges]
        if layer == "silver":
            return sum(one.elsewhere for one in ranges)
        return sum(one.rows for one in ranges) if layer == "quarantine" else None

    def batches(self, key: str) -> list[Batch]:
        """The last batches of a table that follows bronze, or the commits of a step."""
        found = [
            Batch(
                table=key,
                number=commit.batch_id,
                state="committed",
                at_ms=commit.committed_at_ms,
                sources=_sources(((one.topic, one.partition), one.end) for one in commit.ranges),
            )
            for commit in self.commits[:BATCHES]
        ]
        for closed, at_ms in self.closed[:BATCHES]:
            found.append(
                Batch(table=key, number=closed.number, state="committed", at_ms=at_ms, sources=[])
            )
        for merged, at_ms in self.merged[:BATCHES]:
            ends = (((tp.topic, tp.partition), end) for tp, end in merged.ends.items())
            found.append(
                Batch(
                    table=key,
                    number=merged.number,
                    state="committed",
                    at_ms=at_ms,
                    sources=_sources(ends),
                )
            )
        return found


_LAYERS: Final[dict[str, Layer]] = {
    "bronze": "bronze",
    "silver": "silver",
    "state": "state",
    "quarantine": "quarantine",
}


def _layer_of(key: str) -> Layer:
    return _LAYERS.get(key.partition(" ")[0], "gold")


def _column(actions: Any, name: str) -> list[int | None]:
    return actions[name].to_pylist() if name in actions.column_names else []


def _ends(checkpoint: Checkpoint, batch: int) -> dict[tuple[str, int], int]:
    ends = checkpoint.end(batch).ends
    return {(tp.topic, tp.partition): offset for tp, offset in ends.items()}


def _planned(checkpoint: Checkpoint) -> dict[tuple[str, int], int]:
    """The ends of the last planned batch."""
    return _ends(checkpoint, checkpoint.planned[-1]) if checkpoint.planned else {}


def _planned_ms(checkpoint: Checkpoint, batch: int) -> int | None:
    try:
        return int(os.stat(os.path.join(checkpoint.path, "offsets", str(batch))).st_mtime * 1000)
    except OSError:
        return None


def _sources(ends: Iterable[tuple[tuple[str, int], int]]) -> list[Planned]:
    return [
        Planned(topic=topic, partition=partition, planned=end)
        for (topic, partition), end in sorted(ends)
    ]


def progress_of(planned: dict[tuple[str, int], int], topics: tuple[str, ...]) -> list[Planned]:
    """The partitions that are planned, and for a topic without one its first."""
    begun = {topic for topic, _ in planned}
    found = _sources(planned.items())
    for topic in topics:
        if topic not in begun:
            found.append(Planned(topic=topic, partition=0, planned=None))
    return found
