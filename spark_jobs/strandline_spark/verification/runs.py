"""The offsets of a table's rows, read from its files, as runs of consecutive offsets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.bronze.fenced_table import POSITION_KEY
from strandline_spark.errors import TableError
from strandline_spark.stores import files
from strandline_spark.verification import noted_runs
from strandline_spark.verification.noted_runs import Note, NotedFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_spark.bronze.commits import CommittedRange
    from strandline_spark.bronze.fenced_table import FencedTable

_BATCH_ROWS: Final = 1 << 17
_COLUMNS: Final = ("partition", "offset", "leader_epoch")


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Rows of consecutive offsets [start, end), with the leader epochs of its ends."""

    start: int
    end: int
    epoch_first: int
    epoch_last: int


class TopicRuns:
    """The runs of every partition of one topic in a table. Files that an earlier verification has
    noted are not read again, unless `full`.
    """

    def __init__(self, table: FencedTable, topic: str, *, full: bool = True) -> None:
        """Raises TableError for a file that is missing or does not read."""
        self.of: dict[int, list[Run]] = {}
        """By partition, in no order. A table without leader epochs has epoch -1."""
        self.problems: list[str] = []
        """Faults in what was verified before."""
        self.read = 0
        """Number of files that were read."""
        self._table = table
        self._topic = topic
        self._position = table.setting(POSITION_KEY)
        self._known = Note() if full else noted_runs.read(table.path, table.id, topic)
        self._note = Note(table.version)
        if full:
            table.check_files()
        try:
            changed = [path for path in table.topic_files(topic) if not self._take(path)]
        except FileNotFoundError as why:
            table.check_files()  # it names the files
            raise TableError(f"{table.path}: {why}; put it back from a copy") from why
        if changed:
            self.problems.append(
                f"{len(changed)} files have changed since they were verified: {changed[0]}; such a"
                " file never changes by itself"
            )

    def note(self, ranges: Iterable[tuple[int, CommittedRange]]) -> None:
        """Notes what was read, as verified; `ranges` are those of the topic with their versions."""
        self._note.accounts = noted_runs.accounts_hash(ranges, self._note.version)
        table = self._table
        noted_runs.write(table.path, table.id, self._topic, self._note)

    def check_accounts(self, ranges: Iterable[tuple[int, CommittedRange]]) -> None:
        """Adds a problem if an account that was verified has changed."""
        known = self._known
        if known.version >= 0 and (
            noted_runs.accounts_hash(ranges, known.version) != known.accounts
        ):
            self.problems.append(
                f"the accounts of commits up to version {known.version} are not those that were"
                " verified: an entry of the log or of the audit was changed or removed"
            )

    def _take(self, path: str) -> bool:
        """Takes the runs of a file. False if it is not what was noted of it."""
        _, mtime_ns, size = files.mark(os.path.join(self._table.path, path))
        known = self._known.files.get(path)
        is_same = known is not None and known.size == size
        if known is not None and is_same and known.mtime_ns == mtime_ns:
            now = known
        else:
            self.read += 1
            runs = self._runs_of(path)
            now = NotedFile(size, mtime_ns, runs)
            is_same = is_same and known is not None and sorted(known.runs) == sorted(runs)
        self._note.files[path] = now
        for partition, *run in now.runs:
            self.of.setdefault(partition, []).append(Run(*run))
        return known is None or is_same

    def _runs_of(self, path: str) -> list[noted_runs.Row]:
        out: dict[int, list[Run]] = {}
        last: dict[int, tuple[int, int]] = {}
        position = self._position
        wanted = {*_COLUMNS, *([] if position is None else [position])}
        with (
            self._table.reading(path),
            files.parquet(os.path.join(self._table.path, path)) as source,
        ):
            columns = [name for name in source.schema_arrow.names if name in wanted]
            for batch in source.iter_batches(_BATCH_ROWS, columns=columns):
                _fold_into(out, batch if position is None else first_rows(batch, position, last))
        return [
            (partition, run.start, run.end, run.epoch_first, run.epoch_last)
            for partition, runs in out.items()
            for run in runs
        ]


def first_rows(batch: Any, position: str, last: dict[int, tuple[int, int]]) -> Any:
    """Returns the first row of each record whose rows are elements, and rows that do not join those
    before them: these count as doubles.

    `last` has offset and place of the last row of each partition in the file, and is brought up to
    date. A record without its first element has no row here.
    """
    partitions, offsets = (batch.column(name).to_numpy() for name in ("partition", "offset"))
    places = batch.column(position).fill_null(0).to_numpy(zero_copy_only=False)
    kept = places == 0
    for partition in np.unique(partitions).tolist():
        mine = np.flatnonzero(partitions == partition)
        offset, place = offsets[mine], places[mine]
        first = last.get(partition, (-1, -1))
        before = np.concatenate([[first[0]], offset[:-1]])
        joins = place == np.concatenate([[first[1]], place[:-1]]) + 1
        kept[mine[(offset == before) & ~joins]] = True
        last[partition] = (int(offset[-1]), int(place[-1]))
    return batch.filter(pa.array(kept))


def _fold_into(out: dict[int, list[Run]], batch: Any) -> None:
    partitions = batch.column("partition").to_numpy()
    for partition in np.unique(partitions):
        mine = partitions == partition
        offsets = batch.column("offset").to_numpy()[mine]
        if "leader_epoch" in batch.schema.names:
            epochs = batch.column("leader_epoch").to_numpy()[mine]
        else:
            epochs = np.full(len(offsets), -1)
        out.setdefault(int(partition), []).extend(fold(offsets, epochs))


def fold(offsets: Any, epochs: Any) -> list[Run]:
    """Returns runs of consecutive offsets. A repeated offset ends a run, so that runs overlap."""
    if len(offsets) == 0:
        return []
    order = np.argsort(offsets, kind="stable")
    offsets, epochs = offsets[order], epochs[order]
    falls = np.diff(epochs) < 0
    starts = np.concatenate(([0], np.flatnonzero((np.diff(offsets) != 1) | falls) + 1))
    ends = np.concatenate((starts[1:], [len(offsets)])) - 1
    return [
        Run(int(offsets[a]), int(offsets[b]) + 1, int(epochs[a]), int(epochs[b]))
        for a, b in zip(starts, ends, strict=True)
    ]
