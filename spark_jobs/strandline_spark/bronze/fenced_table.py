"""A Delta table into which topics go, each offset once.

A micro-batch is one Delta commit. The commit carries, atomically with its files:

* `txn(<job>, <batch id>)`: the job committed this batch. A batch that runs again after a crash
  finds it and does nothing. The state is read before the check, and the commit is made on that
  state. If two drivers both passed the check, the later commit is refused as a conflict.
* `txn(strandline/<topic>/<partition>, <end offset>)` for each partition: the end of the table. This
  is the offset fence: a batch that does not start there is refused. So a deleted checkpoint, a
  rewound offset or a second job cannot lose or duplicate records. Fences are transactions, so those
  of two jobs conflict with each other, and they outlive the clean-up of old commits.
* `strandline` in the commit's metadata: the ranges with their rows, topic ids, leader epochs and
  more. `verify` compares them with the rows. They outlive the commit in `ops.ingest_audit`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from strandline_spark.bronze.commits import from_metadata, to_metadata
from strandline_spark.delta_log import file_list
from strandline_spark.delta_log.checkpoints import write_if_due
from strandline_spark.delta_log.commit import Change, ConflictError
from strandline_spark.delta_log.commit import commit as commit_change
from strandline_spark.delta_log.entries import (
    LOG,
    LogError,
    NoLogError,
    entry_path,
    infos_from,
    infos_of,
)
from strandline_spark.delta_log.table_log import Snapshot, snapshot
from strandline_spark.errors import FenceError, TableError, first_line
from strandline_spark.source.local_files import check_path
from strandline_spark.stores import files
from strandline_spark.stores.durable import check_writes, sync, sync_log
from strandline_spark.stores.paths import absolute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from strandline_spark.bronze.commits import Commit, CommittedRange
    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.delta_log.file_list import FileList

PARTITION_COLUMNS: Final = ["topic", "ingest_date"]
METADATA_KEY: Final = "strandline"
OWNER_KEY: Final = "strandline.pipeline"
"""Key in the table's configuration: the pipeline that owns the table, if one made it."""
POSITION_KEY: Final = "strandline.position"
"""Key in the configuration of a table whose rows are elements: the column of their places."""
_NAMED_MAX: Final = 5
_AGAIN: Final = "nothing was committed, start the job again"
_FENCE: Final = "strandline/{topic}/{partition}"
CONFIGURATION: Final[dict[str, str | None]] = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 7 days",
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of one partition's records, under the table's root and not yet part of it."""

    path: str
    size: int
    topic: str
    ingest_date: str
    partition: int
    rows: int
    offset_min: int
    offset_max: int
    leader_epoch_min: int
    leader_epoch_max: int
    host: str = ""
    """The machine of the task that wrote the file."""
    timestamp_min_ms: int | None = None
    timestamp_max_ms: int | None = None
    event_time_min_us: int | None = None
    event_time_max_us: int | None = None
    """Latest event time of the rows, in silver and without tombstones; None without such a row."""


class FencedTable:
    """One handle on the table, at one version. Open it before you check anything."""

    KIND: ClassVar[str]
    """Name of the table's folder and of its kind in messages, for example `bronze`."""
    MADE_BY: ClassVar[str]
    """The command that makes such a table."""
    COLUMNS: ClassVar[frozenset[str]]
    """Columns that each such table has."""
    IS_CLOSED: ClassVar[bool] = True
    """True if such a table has no other columns."""

    def __init__(self, state: Snapshot, path: str) -> None:
        self._state = state
        self._delta: DeltaTable | None = None
        self._listed: FileList | None = None
        self.path = path

    @classmethod
    def open(cls, path: str) -> Self:
        """Opens the table. Raises TableError if it does not exist, or is of another kind."""
        check_path(path)
        try:
            state = snapshot(path)
        except NoLogError as why:
            raise TableError(f"{path} is no Delta table; `{cls.MADE_BY}` makes one") from why
        except LogError as why:
            raise TableError(f"{path} cannot be opened: {first_line(why)}") from why
        columns = set(state.columns)
        fits = columns == cls.COLUMNS if cls.IS_CLOSED else columns >= cls.COLUMNS
        if not fits or state.partition_columns != PARTITION_COLUMNS:
            raise TableError(
                f"{path} is not a {cls.KIND} table: it has the columns {sorted(columns)}, not"
                f" {sorted(cls.COLUMNS)} partitioned by {PARTITION_COLUMNS}; give another path"
            )
        return cls(state, path)

    @classmethod
    def find(cls, path: str, owner: str | None = None) -> Self | None:
        """Returns the table at `path`; None if one may be made there.

        Raises TableError for anything else, and for a table that belongs to another pipeline than
        `owner`.
        """
        check_path(path)
        if files.is_folder(path) and DeltaTable.is_deltatable(path):
            table = cls.open(path)
            table.check_owner(owner)
            return table
        # A crash during the creation leaves a log without a first entry.
        if files.is_file(path) or (files.is_folder(path) and set(files.names(path)) - {LOG}):
            raise TableError(f"{path} exists and is no Delta table; give an empty path")
        return None

    @classmethod
    def _open_or_create(
        cls,
        path: str,
        schema: Any,
        *,
        name: str,
        description: str,
        owner: str | None,
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Returns the table like `find`, and makes it if needed. Raises TableError if it cannot be
        made.
        """
        if (there := cls.find(path, owner)) is not None:
            return there
        make_table(
            path,
            schema,
            partition_by=PARTITION_COLUMNS,
            name=name,
            description=description,
            configuration=CONFIGURATION
            | ({} if owner is None else {OWNER_KEY: owner})
            | dict(settings or {}),
        )
        table = cls.open(path)
        table.check_owner(owner)
        return table

    @property
    def owner(self) -> str | None:
        """The pipeline that made the table; None if none did."""
        return self._state.configuration.get(OWNER_KEY)

    def setting(self, key: str) -> str | None:
        """Returns a value of the table's configuration."""
        return self._state.configuration.get(key)

    def check_owner(self, pipeline: str | None) -> None:
        """Raises TableError if the table belongs to another pipeline."""
        if self.owner is not None and self.owner != pipeline:
            other = "" if pipeline is None else f", not to {pipeline}"
            raise TableError(
                f"{self.path} belongs to the pipeline {self.owner}{other}: give another path"
            )

    @property
    def version(self) -> int:
        return self._state.version

    @property
    def id(self) -> str:
        return self._state.id

    @property
    def state(self) -> Snapshot:
        return self._state

    @property
    def delta(self) -> DeltaTable:
        """The handle of delta-rs on this version. The first use reads the list of all files."""
        if self._delta is None:
            self._delta = self._state.handle()
        return self._delta

    def committed_batch(self, app_id: str) -> int | None:
        """Returns the last batch that this job committed."""
        return self._state.transactions.get(app_id)

    def end(self, tp: TopicPartition) -> int | None:
        """Returns the end of the table for the partition; None if the table never took from it."""
        return self._state.transactions.get(_fence(tp))

    def check_fence(self, tp: TopicPartition, start: int) -> None:
        """Raises FenceError unless the batch starts where the table ends."""
        end = self.end(tp)
        if end is not None and end != start:
            raise self._fenced(tp, "start", start, end)

    def check_held(self, tp: TopicPartition, end: int, *, last: bool) -> None:
        """Raises FenceError unless the table holds a batch that the job committed up to `end`.

        A batch of the same number that reaches further was planned again, from a checkpoint that
        had lost its log. To skip it would lose records. The last batch ends exactly where the table
        does.
        """
        held = self.end(tp)
        if held is None or held < end or (last and held != end):
            raise self._fenced(tp, "end", end, -1 if held is None else held)

    def _fenced(self, tp: TopicPartition, edge: str, offset: int, end: int) -> FenceError:
        return FenceError(
            f"the table {self.path} holds {tp} up to offset {end}, but this batch would {edge} at"
            f" {offset}: records would be {'lost' if offset > end else 'doubled'}. The checkpoint"
            " does not belong to the table as it is: delete the checkpoint and resume with"
            " --from table, or ingest into a new table"
        )

    def commit(
        self, app_id: str, batch_id: int, ranges: list[CommittedRange], new: list[DataFile]
    ) -> None:
        """Adds the files, once, and returns when the commit is synced. The caller has checked batch
        and fences on this very handle.
        """
        for file in new:
            _check_there(self.path, file)
        change = Change(info={METADATA_KEY: to_metadata(app_id, batch_id, ranges)})
        for file in new:
            self.add_to(change, file)
        # One for each partition: of two with the same name, a reader of the log may take either.
        ends: dict[TopicPartition, int] = {}
        for one in ranges:
            ends[one.tp] = max(one.end, ends.get(one.tp, 0))
        fences = {_fence(tp): end for tp, end in ends.items()}
        change.transactions = {app_id: batch_id, **fences}
        try:
            self.write(change)
        except ConflictError as why:
            raise TableError(
                f"another writer committed these partitions to {self.path} meanwhile ({why});"
                " run one job for each topic and table"
            ) from why

    def write(self, change: Change) -> None:
        """Commits the change on this state, and takes the new one once it is synced. Raises
        ConflictError, and TableError if the disk refuses.
        """
        with committing(self.path):
            version = commit_change(self._state, change)
            self.refresh()
            write_if_due(self.path, version)

    def refresh(self) -> None:
        """Takes the table's present state."""
        self._state, self._delta, self._listed = snapshot(self.path), None, None

    def sync_log(self) -> None:
        """Syncs the commits of earlier processes."""
        with committing(self.path):
            sync_log(self.path, 0)

    def commits(self, limit: int | None = None) -> list[Commit]:
        """Returns the jobs' commits among the newest `limit` entries that the log still has, newest
        first.

        Raises TableError if one is unreadable, or holds what none of our jobs has written.
        """
        return self._accounted(itertools.islice(infos_from(self.path, self.version), limit))

    def commits_of(self, versions: Iterable[int]) -> list[Commit]:
        """Returns the jobs' commits among these versions, as far as the log has them. Raises
        TableError like `commits`.
        """
        return self._accounted(infos_of(self.path, versions))

    def logged_versions(self) -> list[int]:
        """Returns the versions that the log has, from this one down to the first that it lacks."""
        names = files.names(os.path.join(self.path, LOG))
        there = {name for name in names if name.endswith(".json")}
        down = range(self.version, -1, -1)
        return list(itertools.takewhile(lambda one: f"{one:020}.json" in there, down))

    def _accounted(self, infos: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Commit]:
        try:
            return [
                from_metadata(
                    info[METADATA_KEY], self.log_entry(version), version, info["timestamp"]
                )
                for version, info in infos
                if info.get(METADATA_KEY) is not None
            ]
        except LogError as why:
            raise self._unreadable(why) from why

    def log_entry(self, version: int) -> str:
        """Returns the path of a version's entry, which may have left the log."""
        return entry_path(self.path, version)

    def log_start(self) -> int:
        """Returns the first version whose entry the log still has."""
        names = files.names(os.path.join(self.path, LOG))
        versions = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return min((int(one) for one in versions if one.isdigit()), default=self.version + 1)

    def file_paths(self) -> list[str]:
        """Returns the files of this version, under the table's folder."""
        paths: list[str] = pa.table(self.delta.get_add_actions()).column("path").to_pylist()
        return paths

    def listed(self) -> FileList:
        """Returns the files of this version with their topics, in columns. Raises TableError if the
        log does not read.
        """
        if self._listed is None:
            try:
                self._listed = file_list.read(self._state)
            except LogError as why:
                raise self._unreadable(why) from why
        return self._listed

    def _unreadable(self, why: LogError) -> TableError:
        return TableError(
            f"the log {self.path}/{LOG} does not read ({first_line(why)}): put it back from a"
            " copy, or ingest into a new table"
        )

    def check_files(self) -> None:
        """Raises TableError if a file that belongs to the table is missing."""
        paths = [os.path.join(self.path, path) for path in self.file_paths()]
        missing = sorted(path for path in paths if not files.is_file(path))
        if missing:
            more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
            raise TableError(
                f"{len(missing)} of {len(paths)} files of the table {self.path} are not there:"
                f" {', '.join(missing[:_NAMED_MAX])}{more}; put them back from a copy, or ingest"
                " into a new table"
            )

    def scanners(self, wanted: Any, columns: list[str], **bounds: int) -> Iterator[tuple[str, Any]]:
        """Yields each file that may have `wanted` rows, under the table's folder, and a scanner of
        them.

        The scanner reads those of `columns` that the table has. Use it inside `reading`.
        """
        dataset: Any = self.delta.to_pyarrow_dataset(filesystem=files.file_system(self.path))
        there = [name for name in columns if name in dataset.schema.names]
        for file in dataset.get_fragments(wanted):
            scanner = file.scanner(dataset.schema, columns=there, filter=wanted, **bounds)
            yield file.path, scanner

    @contextlib.contextmanager
    def reading(self, file: str) -> Iterator[None]:
        """Raises TableError if the block fails to read the file."""
        try:
            yield
        except (OSError, pa.ArrowInvalid) as why:
            raise TableError(
                f"the file {os.path.join(self.path, file)} does not read ({first_line(why)}): put"
                " it back from a copy, or ingest into a new table"
            ) from why

    def statistics(self, file: DataFile) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
        """Returns least and greatest value of columns, and the number of nulls."""
        least = {"partition": file.partition, "offset": file.offset_min}
        most = {"partition": file.partition, "offset": file.offset_max}
        return least, most, dict.fromkeys(least, 0)

    def add_to(self, change: Change, file: DataFile, *, data_change: bool = True) -> None:
        """Adds the file to a change of this table."""
        least, most, nulls = self.statistics(file)
        stats = {"numRecords": file.rows, "minValues": least, "maxValues": most, "nullCount": nulls}
        values = {"topic": file.topic, "ingest_date": file.ingest_date}
        change.add(file.path, file.size, values, json.dumps(stats), data_change=data_change)


def make_table(path: str, schema: Any, **given: Any) -> None:
    """Makes the table durably if there is none yet (`DeltaTable.create`). Raises TableError on
    failure.
    """
    try:
        files.make_folder(path)
        check_writes(path)
        DeltaTable.create(path, schema, mode="ignore", raise_if_key_not_exists=False, **given)
        sync_log(path, 0)
        sync(os.path.dirname(absolute(path)))
    except (OSError, DeltaError) as why:
        raise TableError(
            f"the table {path} cannot be made ({first_line(why)}): make room there, or give a path"
            " where you may write"
        ) from why


@contextlib.contextmanager
def committing(table: str) -> Iterator[None]:
    """Raises TableError if the disk refuses the commit. The commit may exist all the same; the next
    run checks that.
    """
    try:
        yield
    except (OSError, DeltaError) as why:
        raise TableError(
            f"{platform.node()} cannot commit to {table} ({first_line(why)}): make room there, or"
            " see to it that you may write; run this again then, it goes on where the table ends"
        ) from why


def _suffixes() -> Iterator[str]:
    yield ""
    for number in itertools.count(2):
        yield f"-{number}"


def _check_there(root: str, file: DataFile) -> None:
    """Raises TableError unless this machine sees the file as the task wrote it."""
    path = os.path.join(root, file.path)
    wrote = f"a task on {file.host or 'a worker'} wrote {path} ({file.size} bytes)"
    try:
        size = files.size(path)
        rows = files.footer(path).num_rows if size == file.size else -1
    except FileNotFoundError:
        raise TableError(
            f"{wrote}, and there is no such file here: every worker must have the table's folder"
            " under the same path, so mount it there or choose one that all machines share;"
            " nothing was committed"
        ) from None
    except (OSError, pa.ArrowInvalid) as why:
        raise TableError(f"{wrote}, and it does not read here ({why}); {_AGAIN}") from why
    if size != file.size or rows != file.rows:
        held = f"{size} bytes" if size != file.size else f"{rows} rows, not {file.rows}"
        raise TableError(f"{wrote}, and here it has {held}; {_AGAIN}")


def _fence(tp: TopicPartition) -> str:
    return _FENCE.format(topic=tp.topic, partition=tp.partition)
