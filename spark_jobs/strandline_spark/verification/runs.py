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
from strandline_spark.verification.intervals import Intervals
from strandline_spark.verification.noted_runs import FileRuns, Note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.verification.accounts import Accounts

_BATCH_ROWS: Final = 1 << 17
_COLUMNS: Final = ("partition", "offset", "leader_epoch")


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Rows of consecutive offsets [start, end), with the leader epochs of its ends."""

    start: int
    end: int
    epoch_first: int
    epoch_last: int


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The runs of one partition in columns, in no order."""

    starts: Any
    ends: Any
    epochs_first: Any
    epochs_last: Any

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Runs:
        rows = [(one.start, one.end, one.epoch_first, one.epoch_last) for one in runs]
        return cls(*np.array(rows, np.int64).reshape(-1, 4).T)

    @property
    def rows(self) -> int:
        """Number of the rows; a repeated offset counts each time."""
        return int((self.ends - self.starts).sum())

    def covered(self) -> Intervals:
        """Returns the offsets of the rows."""
        return Intervals.of(self.starts, self.ends)

    def epochs_fall(self) -> bool:
        """True if a row has a lesser leader epoch than one of a lesser offset."""
        order = np.lexsort((self.epochs_last, self.epochs_first, self.ends, self.starts))
        return bool((self.epochs_first[order][1:] < self.epochs_last[order][:-1]).any())

    def __or__(self, other: Runs) -> Runs:
        pairs = zip(self._columns, other._columns, strict=True)
        return Runs(*(np.concatenate(pair) for pair in pairs))

    @property
    def _columns(self) -> tuple[Any, ...]:
        return self.starts, self.ends, self.epochs_first, self.epochs_last


NO_RUNS: Final = Runs.of(())


class TopicRuns:
    """The runs of every partition of one topic in a table. Files that an earlier verification has
    noted are not read again, unless `full`.
    """

    def __init__(self, table: FencedTable, topic: str, *, full: bool = True) -> None:
        """Raises TableError for a file that is missing or does not read."""
        self.of: dict[int, Runs] = {}
        """By partition. A table without leader epochs has epoch -1."""
        self.problems: list[str] = []
        """Faults in what was verified before."""
        self._table = table
        self._topic = topic
        self._position = table.setting(POSITION_KEY)
        self._known = Note() if full else noted_runs.read(table.path, table.id, topic)
        if full:
            table.check_files()
        try:
            self._files, changed = self._taken(table.listed().of_topic(topic))
        except FileNotFoundError as why:
            table.check_files()  # it names the files
            raise TableError(f"{table.path}: {why}; put it back from a copy") from why
        if changed:
            self.problems.append(
                f"{len(changed)} files have changed since they were verified: {changed[0]}; such a"
                " file never changes by itself"
            )
        self._split()

    def note(self, accounts: Accounts) -> None:
        """Notes what was read, as verified, with the topic's accounts."""
        table = self._table
        known = noted_runs.accounts_hash(accounts, table.version)
        note = Note(table.version, known, self._files)
        noted_runs.write(table.path, table.id, self._topic, note)

    def check_accounts(self, accounts: Accounts) -> None:
        """Adds a problem if an account that was verified has changed."""
        known = self._known
        if known.version >= 0 and (
            noted_runs.accounts_hash(accounts, known.version) != known.accounts
        ):
            self.problems.append(
                f"the accounts of commits up to version {known.version} are not those that were"
                " verified: an entry of the log or of the audit was changed or removed"
            )

    def _taken(self, paths: Any) -> tuple[FileRuns, list[str]]:
        """Returns the runs of the files, and the paths of those that are not what was noted."""
        names = paths.to_pylist()
        sizes, times = (np.array(one, np.int64) for one in files.marks(self._table.path, names))
        known = self._known.files
        places = known.places(paths)
        known_sizes, known_times = (np.append(one, -1)[places] for one in known.marks())
        is_same_size = (places >= 0) & (known_sizes == sizes)
        is_known = is_same_size & (known_times == times)
        changed, read = [], []
        for n in np.flatnonzero(~is_known).tolist():
            runs = self._runs_of(names[n])
            read.append((names[n], int(sizes[n]), int(times[n]), runs))
            place = int(places[n])
            if place >= 0 and not (is_same_size[n] and known.runs_of(place) == sorted(runs)):
                changed.append(names[n])
        return known.only(places[is_known]).and_of(FileRuns.read(read)), changed

    def _split(self) -> None:
        columns = self._files.columns()
        partitions = columns.pop("partition")
        order = np.argsort(partitions, kind="stable")
        numbers, firsts = np.unique(partitions[order], return_index=True)
        ends = np.append(firsts[1:], len(order))[: len(firsts)]
        for number, first, end in zip(numbers.tolist(), firsts, ends, strict=True):
            own = order[first:end]
            self.of[number] = Runs(*(one[own].astype(np.int64) for one in columns.values()))

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
