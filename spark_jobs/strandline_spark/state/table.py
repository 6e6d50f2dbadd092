"""A state table: the latest row of each key in a Delta table, changed by delta-rs' MERGE.

A table belongs to one step of one pipeline, which its configuration names. A commit changes the
rows of keys and carries, atomically with them, `account.py`: the fences up to which it holds
silver. It carries `txn(strandline-state:<pipeline>/<step>, <number>)` too, and is made on the
handle that was opened before the fences were read, without retries. So whatever another driver or a
foreign writer has committed since, the later commit is refused.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import Field

from strandline_spark.bronze.fenced_table import committing, make_table
from strandline_spark.delta_log.aside import set_aside
from strandline_spark.errors import TableError, first_line
from strandline_spark.silver.names import quoted
from strandline_spark.source.local_files import check_path
from strandline_spark.state.account import METADATA_KEY, StateAccount, from_metadata, to_metadata
from strandline_spark.state.places import DELETED, with_keys_of
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync, sync_log
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.pipeline.steps import StateStep

_LOG: Final = "_delta_log"
_OWNER: Final = ("strandline.pipeline", "strandline.state")
_JOB: Final = "strandline-state:{pipeline}/{step}"
_NEWEST: Final = 20
_VACUUM_EVERY: Final = 20
_CONFIGURATION: Final = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 7 days",
    # Each commit replaces files, so they would soon be many times the table.
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
_AGAIN: Final = (
    "`strandline-spark state reset {step}` with the pipeline's file begins it again over all of"
    " silver"
)


class StateTable:
    """One handle on the table, at one version."""

    def __init__(self, handle: DeltaTable, step: StateStep, pipeline: str) -> None:
        self.delta = handle
        self.path = step.table
        self.again = _AGAIN.format(step=step.name)
        self._step = step
        self._pipeline = pipeline
        self._job = _JOB.format(pipeline=pipeline, step=step.name)

    @classmethod
    def open(cls, step: StateStep, pipeline: str) -> StateTable:
        """Opens the table. Raises TableError if it does not exist, or belongs to another step."""
        check_path(step.table)
        try:
            handle = DeltaTable(step.table)
        except TableNotFoundError as why:
            raise TableError(
                f"{step.table} is no Delta table; the step {step.name} makes it when it runs"
            ) from why
        except DeltaError as why:
            raise TableError(f"{step.table} cannot be opened: {first_line(why)}") from why
        settings = handle.metadata().configuration
        owner = tuple(settings.get(key) for key in _OWNER)
        if None in owner:
            raise TableError(
                f"{step.table} is a table that no state step has made; give the step another table"
            )
        if owner != (pipeline, step.name):
            raise TableError(
                f"{step.table} is the table of step {owner[1]} of pipeline {owner[0]}, not of step"
                f" {step.name} of pipeline {pipeline}; give each step a table of its own"
            )
        return cls(handle, step, pipeline)

    @classmethod
    def open_or_create(cls, step: StateStep, pipeline: str, schema: Any) -> StateTable:
        """Opens the table, or makes it with silver's Arrow `schema`. Adds the columns that silver
        got since. Raises TableError for a table of another step.
        """
        check_path(step.table)
        if files.is_file(step.table) or not DeltaTable.is_deltatable(step.table):
            _create(step, pipeline, schema)
        table = cls.open(step, pipeline)
        if table.last() is None and table.schema != schema:
            files.remove_tree(step.table)
            _create(step, pipeline, schema)
            table = cls.open(step, pipeline)
        if missing := [one for one in schema if one.name not in table.schema.names]:
            table._add_columns(missing)
            table = cls.open(step, pipeline)
        table._settle()
        return table

    @property
    def schema(self) -> Any:
        """The columns as an Arrow schema."""
        return pa.schema(self.delta.schema())

    def last(self) -> StateAccount | None:
        """Returns the account of the newest commit; None before the first. Raises TableError if the
        log has lost it.
        """
        number = self.delta.transaction_version(self._job)
        if number is None:
            return None
        for limit in (_NEWEST, None):
            for account in self._accounts(limit):
                if account.number == number:
                    return account
        raise TableError(
            f"the log {self.path}/{_LOG} has no account of the newest commit of step"
            f" {self._step.name}: put it back from a copy, or {self.again}"
        )

    def _accounts(self, limit: int | None) -> list[StateAccount]:
        try:
            entries = self.delta.history(limit)
        except DeltaError as why:
            raise TableError(
                f"the log {self.path}/{_LOG} does not read ({first_line(why)}): put it back from a"
                f" copy, or {self.again}"
            ) from why
        return [
            from_metadata(entry[METADATA_KEY], self._entry(entry["version"]), entry["version"])
            for entry in entries
            if entry.get(METADATA_KEY) is not None
        ]

    def matching(self, keys: Sequence[str], columns: Sequence[str], rows: Any) -> Any:
        """Returns `columns` of the table's rows whose key is one of those of `rows`."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        found = []
        try:
            dataset: Any = self.delta.to_pyarrow_dataset(filesystem=files.file_system(self.path))
            for batch in dataset.to_batches(columns=list(columns)):
                held = pa.table(batch).cast(schema)
                found.append(held.filter(pa.array(with_keys_of(held, rows, keys))))
        except (OSError, pa.ArrowInvalid, DeltaError) as why:
            raise self._unreadable(first_line(why)) from why
        return pa.concat_tables([schema.empty_table(), *found])

    def rows(self) -> Any:
        """Returns all rows as an Arrow table. Raises TableError for an unreadable file."""
        try:
            return self.delta.to_pyarrow_table(filesystem=files.file_system(self.path))
        except (OSError, pa.ArrowInvalid, DeltaError) as why:
            raise self._unreadable(first_line(why)) from why

    def count(self) -> int:
        """Returns the number of rows."""
        rows: int | None = pc.sum(pa.table(self.delta.get_add_actions())["num_records"]).as_py()
        return rows or 0

    def commit(self, changes: Any, account: StateAccount) -> int:
        """Merges an Arrow table of the table's columns and DELETED, possibly empty, and returns the
        version once it is synced.

        Raises TableError if anything was committed since the handle was opened.
        """
        before = self.delta.version()
        properties = CommitProperties(
            custom_metadata={METADATA_KEY: to_metadata(account)},
            app_transactions=[Transaction(self._job, account.number)],
            max_commit_retries=0,
        )
        with committing(self.path):
            try:
                if changes.num_rows > 0:
                    self._merge(changes, properties)
                else:  # a MERGE without any change would make no commit
                    self.delta.create_write_transaction(
                        [], "append", self.delta.schema(), commit_properties=properties
                    )
            except CommitFailedError as why:
                raise TableError(self._conflict(before, account)) from why
            self.delta.update_incremental()
            self._sync(before + 1)
        return self.delta.version()

    def _merge(self, changes: Any, properties: CommitProperties) -> None:
        same = " AND ".join(f"held.{quoted(name)} = new.{quoted(name)}" for name in self._step.key)
        deleted = f"new.{quoted(DELETED)}"
        merger = self.delta.merge(
            changes,
            same,
            source_alias="new",
            target_alias="held",
            streamed_exec=False,  # so that files without one of the keys are skipped
            writer_properties=WriterProperties(compression="ZSTD"),
            commit_properties=properties,
        )
        merger = merger.when_matched_delete(deleted)
        merger = merger.when_matched_update_all(except_cols=[DELETED])
        merger = merger.when_not_matched_insert_all(f"NOT {deleted}", except_cols=[DELETED])
        try:
            merger.execute()
        except DeltaError:
            raise
        except Exception as why:  # delta-rs raises errors other than DeltaError
            raise DeltaError(first_line(why)) from why

    def clean(self) -> None:
        """Removes the files that commits replaced an hour ago or earlier, and those of failed
        commits, at every twentieth version.
        """
        if self.delta.version() % _VACUUM_EVERY != 0:
            return
        with committing(self.path):
            self.delta.vacuum(dry_run=False, enforce_retention_duration=False, full=True)

    def set_aside(self) -> str:
        """Moves the table out of the way, and returns its new folder."""
        return set_aside(self.path)

    def _conflict(self, before: int, account: StateAccount) -> str:
        now = StateTable.open(self._step, self._pipeline)
        last = now.last()
        if last is not None and last.number >= account.number:
            return (
                f"another driver committed step {self._step.name} to {self.path} meanwhile; nothing"
                " was committed here. Run one job for each pipeline"
            )
        what = now.delta.history(1)[0].get("operation", "a commit")
        return (
            f"another writer changed {self.path} during the MERGE (version {before + 1}, {what});"
            " nothing was committed here, and the step tries again. Let no other program write to"
            " a state table"
        )

    def _add_columns(self, columns: Sequence[Any]) -> None:
        before = self.delta.version()
        names = ", ".join(one.name for one in columns)
        try:
            self.delta.alter.add_columns([Field.from_arrow(one) for one in columns])
        except Exception as why:  # delta-rs raises errors other than DeltaError
            raise TableError(
                f"{self.path} cannot take the columns {names} ({first_line(why)}): start the job"
                " again"
            ) from why
        with committing(self.path):
            sync_log(self.path, before + 1)

    def _settle(self) -> None:
        """Syncs the newest commit, whose process may have ended before it did so. Raises TableError
        for a file that a loss of power has cut.
        """
        actions: Any = pa.table(self.delta.get_add_actions())
        for name, size in zip(
            *(actions[c].to_pylist() for c in ("path", "size_bytes")), strict=True
        ):
            file = os.path.join(self.path, name)
            found = files.size(file) if files.is_file(file) else None
            if found != size:
                held = "is not there" if found is None else f"has {found} bytes, not {size}"
                raise self._unreadable(f"{name} {held}")
        with committing(self.path):
            self._sync(self.delta.version())

    def _sync(self, version: int) -> None:
        """Syncs the files of the commit `version`, and the log from it on."""
        if is_remote(self.path):
            return
        with open(self._entry(version), encoding="utf-8") as entry:
            actions = [json.loads(line) for line in entry if line.strip()]
        for action in actions:
            if "add" in action:
                sync(os.path.join(self.path, action["add"]["path"]))
        sync_log(self.path, version)

    def _entry(self, version: int) -> str:
        return os.path.join(self.path, _LOG, f"{version:020}.json")

    def _unreadable(self, why: str) -> TableError:
        return TableError(
            f"a file of {self.path} does not read ({why}): put it back from a copy, or {self.again}"
        )


def _create(step: StateStep, pipeline: str, schema: Any) -> None:
    path = step.table
    # A crash during the creation leaves a log without a first entry.
    if files.is_file(path) or (files.is_folder(path) and set(files.names(path)) - {_LOG}):
        raise TableError(f"{path} exists and is no Delta table; give an empty path")
    make_table(
        path,
        schema,
        name=step.name,
        description=f"Latest row of each key, step {step.name} of the Strandline pipeline"
        f" {pipeline}",
        configuration=_CONFIGURATION | dict(zip(_OWNER, (pipeline, step.name), strict=True)),
    )
