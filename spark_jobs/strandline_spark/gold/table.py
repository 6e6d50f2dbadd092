"""A gold table: the rows of a step's closed windows in a Delta table, committed through delta-rs.

A table belongs to one step of one pipeline, which its configuration names. A commit adds the rows
of all windows that close together. Its metadata names the rows of silver that they consist of
(`account.py`). It carries `txn(strandline-gold:<pipeline>/<step>, <watermark>)`, and is made on the
state that was read before anything else. So if two drivers close the same windows, the later one is
refused.
"""

from __future__ import annotations

import itertools
import json
import os
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from strandline_spark.bronze.fenced_table import committing, make_table
from strandline_spark.cluster.offsets import OFFSET_MAX
from strandline_spark.delta_log.aside import set_aside
from strandline_spark.delta_log.checkpoints import write_if_due
from strandline_spark.delta_log.commit import Change, ConflictError
from strandline_spark.delta_log.commit import commit as commit_change
from strandline_spark.delta_log.entries import LOG, LogError, NoLogError, entry_path, infos_from
from strandline_spark.delta_log.table_log import Snapshot, snapshot
from strandline_spark.errors import TableError, first_line
from strandline_spark.gold.account import METADATA_KEY, GoldAccount, from_metadata, to_metadata
from strandline_spark.gold.definition import delta_columns
from strandline_spark.gold.identity import is_same
from strandline_spark.source.local_files import check_path
from strandline_spark.source.schema import TIMESTAMP_TYPE
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from strandline_spark.pipeline.steps import GoldStep

LOG_DAYS: Final = 30
_OWNER: Final = ("strandline.pipeline", "strandline.step")
_JOB: Final = "strandline-gold:{pipeline}/{step}"
_NEWEST: Final = 20
_VACUUM_EVERY: Final = 20
_APPEND_ONLY: Final = "delta.appendOnly"
_REPLACED: Final = {"delta.deletedFileRetentionDuration": "interval 1 hours"}
_MILLISECOND: Final = 1000
_YEAR_1: Final = -62_135_596_800_000_000
_YEAR_10000: Final = 253_402_300_800_000_000
"""Times between these two have a text in Delta's statistics."""
_AGAIN: Final = (
    "`strandline-spark gold reset {step}` with the pipeline's file begins it again over all of"
    " silver, or give the step another name"
)


class GoldTable:
    """One handle on the table, at one version."""

    def __init__(self, state: Snapshot, step: GoldStep, pipeline: str) -> None:
        self.state = state
        self.path = step.table
        self._step = step
        self._job = _JOB.format(pipeline=pipeline, step=step.name)

    @classmethod
    def open(cls, step: GoldStep, pipeline: str) -> GoldTable:
        """Opens the table. Raises TableError if it does not exist, or belongs to another step."""
        check_path(step.table)
        try:
            state = snapshot(step.table)
        except NoLogError as why:
            raise TableError(
                f"{step.table} is no Delta table; the step {step.name} makes it when it runs"
            ) from why
        except LogError as why:
            raise TableError(f"{step.table} cannot be opened: {first_line(why)}") from why
        owner = tuple(state.configuration.get(key) for key in _OWNER)
        if None in owner:
            raise TableError(
                f"{step.table} is a table that no gold step has made; give the step another table"
            )
        if owner != (pipeline, step.name):
            raise TableError(
                f"{step.table} is the table of step {owner[1]} of pipeline {owner[0]}, not of step"
                f" {step.name} of pipeline {pipeline}; give each step a table of its own"
            )
        return cls(state, step, pipeline)

    @classmethod
    def open_or_create(
        cls, step: GoldStep, pipeline: str, columns: StructType, identity: str
    ) -> GoldTable:
        """Opens the table, or makes it; one without a commit is made again.

        Raises TableError for a table of another step, with other columns than the step's result, or
        of a step with another computation.
        """
        check_path(step.table)
        schema = Schema.from_json(json.dumps(delta_columns(columns)))
        if files.is_file(step.table) or not DeltaTable.is_deltatable(step.table):
            _create(step, pipeline, schema)
        table = cls.open(step, pipeline)
        table.check_definition(identity)
        held, wanted = (
            [(field["name"], field["type"]) for field in json.loads(one.to_json())["fields"]]
            for one in (table.state.schema, schema)
        )
        takes_removals = table.state.configuration.get(_APPEND_ONLY) != "true"
        is_other = _in_small(held) != _in_small(wanted) or takes_removals != step.updates
        if is_other and table.last() is None:
            files.remove_tree(step.table)
            _create(step, pipeline, schema)
            return cls.open(step, pipeline)
        if _in_small(held) != _in_small(wanted):
            raise TableError(
                f"{step.table} has the columns {_names(held)}, and the result of step {step.name}"
                f" has {_names(wanted)}; {_AGAIN.format(step=step.name)}"
            )
        return table

    @property
    def delta(self) -> DeltaTable:
        """A new handle of delta-rs on this version."""
        return self.state.handle()

    def check_definition(self, identity: str) -> None:
        """Raises TableError if the newest commit is of a step with another computation than this
        `identity`.
        """
        last = self.last()
        if last is not None and not is_same(last.definition, self._step, identity):
            raise TableError(
                f"the step {self._step.name} has changed (sql, window, slide, zone, offset,"
                f" session, session_key or late) since {self.path} was last written: its rows would"
                f" be of two kinds; {self._again}"
            )

    @property
    def _again(self) -> str:
        return _AGAIN.format(step=self._step.name)

    def last(self) -> GoldAccount | None:
        """Returns the account of the newest commit; None before the first. Raises TableError if the
        log has lost it.
        """
        found = self._accounts(_NEWEST) or self._accounts(None)
        committed = self.state.transactions.get(self._job)
        if committed is None:
            return None
        if not found or found[-1].watermark != committed:
            raise TableError(
                f"the log {self.path}/{LOG} has no account of the newest commit of step"
                f" {self._step.name}: put it back from a copy, or {self._again}"
            )
        return found[-1]

    def accounts(self) -> list[GoldAccount]:
        """Returns the accounts of the commits that the log still has, oldest first."""
        return self._accounts(None)

    def _accounts(self, limit: int | None) -> list[GoldAccount]:
        try:
            entries = list(itertools.islice(infos_from(self.path, self.state.version), limit))
        except LogError as why:
            raise TableError(
                f"the log {self.path}/{LOG} does not read ({first_line(why)}): put it back from a"
                f" copy, or {self._again}"
            ) from why
        out = [
            from_metadata(info[METADATA_KEY], entry_path(self.path, version), version)
            for version, info in entries
            if info.get(METADATA_KEY) is not None
        ]
        return sorted(out, key=lambda one: one.version)

    def commit(
        self,
        rows: Any,
        account: GoldAccount,
        replaced: frozenset[int] = frozenset(),
        tries: int = 3,
    ) -> int:
        """Adds an Arrow table of rows, possibly empty, in place of the rows whose window ends at
        one of the times `replaced`. Returns the version once it is synced.

        Raises TableError if another driver has committed since the handle was opened.
        """
        with committing(self.path):
            try:
                version = self._commit(rows, account, replaced)
            except ConflictError as why:
                self.state = snapshot(self.path)
                last = self.last()
                if tries > 1 and (last is None or last.number < account.number):
                    # A compaction has put other files in place of those that lose rows.
                    return self.commit(rows, account, replaced, tries - 1)
                raise TableError(
                    f"another driver committed step {self._step.name} to {self.path} meanwhile"
                    f" ({first_line(why)}); nothing was committed here. Run one job for each"
                    " pipeline"
                ) from why
            self.state = snapshot(self.path)
            write_if_due(self.path, version)
        return version

    def _commit(self, rows: Any, account: GoldAccount, replaced: frozenset[int]) -> int:
        change = Change(transactions={self._job: account.watermark})
        if replaced:
            self._replace(change, replaced)
        if rows.num_rows > 0:
            self._write(change, named_as(rows, self.state.columns))
        change.info = {METADATA_KEY: to_metadata(account)}
        return commit_change(self.state, change)

    def set_aside(self) -> str:
        """Moves the table out of the way, and returns its new folder."""
        return set_aside(self.path)

    def _replace(self, change: Change, ends: frozenset[int]) -> None:
        """Removes the rows of these windows: each file with some of them is replaced by one of its
        other rows.
        """
        wanted = sorted(ends)
        for path, size, least, most in self._files():
            near = bisect_left(wanted, least)
            if near == len(wanted) or wanted[near] > most:
                continue
            rows = self._file(path)
            among = pa.array(wanted, pa.int64())
            gone = pc.is_in(_micros(rows, "window_end"), value_set=among)
            left = rows.filter(pc.invert(gone))
            if left.num_rows == rows.num_rows:
                continue
            change.remove(path, size, {}, data_change=True)
            if left.num_rows > 0:
                self._write(change, left)

    def _files(self) -> Iterator[tuple[str, int, int, int]]:
        """Yields each file with its size and the bounds of its windows' ends, which are wide if the
        log has none.
        """
        actions: Any = pa.table(self.delta.get_add_actions(flatten=True))
        paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
        bounds = [
            actions.column(name).cast(TIMESTAMP_TYPE).cast(pa.int64()).to_pylist()
            if name in actions.column_names
            else [None] * len(paths)
            for name in ("min.window_end", "max.window_end")
        ]
        for path, size, least, most in zip(paths, sizes, *bounds, strict=True):
            # A bound may be cut off to milliseconds.
            yield (
                path,
                size,
                -OFFSET_MAX if least is None else least - _MILLISECOND,
                OFFSET_MAX if most is None else most + _MILLISECOND,
            )

    def _file(self, path: str) -> Any:
        try:
            return files.parquet(os.path.join(self.path, path)).read()
        except (OSError, pa.ArrowInvalid) as why:
            raise self._unreadable(why) from why

    def clean(self) -> None:
        """Removes the files that commits replaced an hour ago or earlier, and those of failed
        commits, at every twentieth version.
        """
        if self._step.updates and self.state.version % _VACUUM_EVERY == 0:
            with committing(self.path):
                self.delta.vacuum(dry_run=False, enforce_retention_duration=False, full=True)

    def _unreadable(self, why: Exception) -> TableError:
        return TableError(
            f"a file of {self.path} does not read ({first_line(why)}): put it back from a copy,"
            f" or {self._again}"
        )

    def _write(self, change: Change, rows: Any) -> None:
        name = f"{os.urandom(12).hex()}.parquet"
        file = os.path.join(self.path, name)
        files.write_parquet(rows, file, compression="zstd")
        sync(file)
        stats: dict[str, Any] = {"numRecords": rows.num_rows}
        least, most = (one.as_py() for one in pc.min_max(_micros(rows, "window_end")).values())
        if least >= _YEAR_1 and most < _YEAR_10000:
            stats["minValues"] = {"window_end": _text(least)}
            stats["maxValues"] = {"window_end": _text(most)}
            stats["nullCount"] = {"window_end": 0}
        change.add(name, files.size(file), {}, json.dumps(stats))

    def rows(self) -> Any:
        """Returns all rows as an Arrow table. Raises TableError for an unreadable file."""
        try:
            return self.delta.to_pyarrow_table(filesystem=files.file_system(self.path))
        except (OSError, pa.ArrowInvalid, DeltaError) as why:
            raise self._unreadable(why) from why


def named_as(rows: Any, names: list[str]) -> Any:
    """Returns the rows with a table's names, if a statement writes them with other capitals."""
    own = {name.lower(): name for name in names}
    return rows.rename_columns([own.get(name.lower(), name) for name in rows.column_names])


def _in_small(columns: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name.lower(), kind) for name, kind in columns]


def _create(step: GoldStep, pipeline: str, schema: Schema) -> None:
    path = step.table
    # A crash during the creation leaves a log without a first entry.
    if files.is_file(path) or (files.is_folder(path) and set(files.names(path)) - {LOG}):
        raise TableError(f"{path} exists and is no Delta table; give an empty path")
    configuration = {
        **(_REPLACED if step.updates else {_APPEND_ONLY: "true"}),
        "delta.checkpointInterval": "20",
        "delta.logRetentionDuration": f"interval {LOG_DAYS} days",
        **dict(zip(_OWNER, (pipeline, step.name), strict=True)),
    }
    make_table(
        path,
        schema,
        name=step.name,
        description=f"Closed windows of step {step.name} of the Strandline pipeline {pipeline}",
        configuration=configuration,
    )


def _micros(rows: Any, column: str) -> Any:
    return rows.column(column).cast(pa.int64())


def _text(micros: int) -> str:
    """Returns a time in the form of Delta's statistics, to the microsecond."""
    time_of: str = pa.scalar(micros, TIMESTAMP_TYPE).as_py().isoformat(timespec="microseconds")
    return time_of.replace("+00:00", "Z")


def _names(columns: list[tuple[str, Any]]) -> str:
    return ", ".join(
        f"{name} {kind if isinstance(kind, str) else kind['type']}" for name, kind in columns
    )
