"""The state of a table by its log: version, metadata and transactions.

A process reads the newest checkpoint and the entries behind it once. Later it reads only the
entries that came since, so the cost does not grow with the table's age. Data files are no part of
this state; `file_index.py` and `held_files.py` follow them.

The state is read again from the beginning if the newest known entry is another file by now: then
another table has taken the place, or an older copy of the log.
"""

from __future__ import annotations

import json
import os
import re
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable, Schema

from strandline_spark.delta_log.entries import (
    LOG,
    LogError,
    NoLogError,
    checkpoint_path,
    entry_path,
    read_entry,
)
from strandline_spark.errors import first_line
from strandline_spark.stores import files
from strandline_spark.stores.paths import absolute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_spark.delta_log.entries import Action

_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_KNOWN_FEATURES: Final = frozenset(("appendOnly", "invariants", "timestampNtz"))
_MAPS: Final = ("configuration", "options")
_TABLES_MAX: Final = 256
"""Tables whose state one process keeps."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a table at one version."""

    path: str
    version: int
    metadata: Mapping[str, Any]
    """The action `metaData` of the log."""
    protocol: Mapping[str, Any]
    transactions: Mapping[str, int]
    lineage: object
    """The same object in later states of the same log; another one if the log was read again."""

    @property
    def id(self) -> str:
        return str(self.metadata["id"])

    @property
    def configuration(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.metadata.get("configuration") or {}
        return found

    @property
    def partition_columns(self) -> list[str]:
        return list(self.metadata.get("partitionColumns") or ())

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_json(self.metadata["schemaString"])

    @cached_property
    def fields(self) -> list[dict[str, Any]]:
        """The columns in the log's own form."""
        found: list[dict[str, Any]] = json.loads(self.metadata["schemaString"])["fields"]
        return found

    @cached_property
    def columns(self) -> list[str]:
        return [field["name"] for field in self.fields]

    def handle(self) -> DeltaTable:
        """Returns a handle of delta-rs on this version. It reads the list of all files."""
        return DeltaTable(self.path, version=self.version)

    def check_writable(self) -> None:
        """Raises LogError if a commit needs what this program does not know."""
        features = {
            # A checkpoint has null where an entry has no such field.
            *(self.protocol.get("writerFeatures") or ()),
            *(self.protocol.get("readerFeatures") or ()),
        }
        reader = self.protocol.get("minReaderVersion", 1)
        writer = self.protocol.get("minWriterVersion", 2)
        if features <= _KNOWN_FEATURES and reader in (1, 3) and writer in (1, 2, 7):
            return
        unknown = ", ".join(sorted(features - _KNOWN_FEATURES)) or f"version {reader}/{writer}"
        raise LogError(
            f"another program gave the table {self.path} features that `strandline-spark` does not"
            f" write ({unknown}): take them off the table, or use another one"
        )


class TableLog:
    """One table's log, as far as this process has read it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: Snapshot | None = None
        self._mark: tuple[object, int, int] | None = None
        """The file of the newest known entry."""

    def snapshot(self) -> Snapshot:
        """Returns the table's present state. Raises LogError; NoLogError if there is no table."""
        with self._lock:
            known = self._known
            if known is None or self._mark is None or self._mark != self._file(known.version):
                known = _first(self._path)
            known = _followed(known)
            if known is not self._known:
                self._known, self._mark = known, self._file(known.version)
            return known

    def _file(self, version: int) -> tuple[object, int, int] | None:
        try:
            return files.mark(entry_path(self._path, version))
        except OSError:
            return None


_LOGS: dict[str, TableLog] = {}
_LOCK: Final = threading.Lock()


def snapshot(path: str) -> Snapshot:
    """Returns the present state of the table at `path`. Raises LogError; NoLogError if there is no
    table.
    """
    whole = absolute(path)
    with _LOCK:
        log = _LOGS.pop(whole, None) or TableLog(whole)
        _LOGS[whole] = log
        while len(_LOGS) > _TABLES_MAX:
            del _LOGS[next(iter(_LOGS))]
    return log.snapshot()


def _first(path: str) -> Snapshot:
    """Returns the state by the newest checkpoint and all entries behind it."""
    try:
        names = files.names(os.path.join(path, LOG))
    except (FileNotFoundError, NotADirectoryError) as why:
        raise NoLogError(f"{path} is no Delta table") from why
    except OSError as why:
        raise LogError(f"the log of {path} does not read ({first_line(why)})") from why
    entries, checkpoints = (
        sorted(int(found[1]) for name in names if (found := kind.fullmatch(name)) is not None)
        for kind in (_ENTRY, _CHECKPOINT)
    )
    if not entries and not checkpoints:
        raise NoLogError(f"{path} is no Delta table")
    start = checkpoints[-1] if checkpoints else -1
    state = _State(path)
    if checkpoints:
        state.take_checkpoint(start)
    for version in range(start + 1, (entries[-1] if entries else start) + 1):
        actions = read_entry(path, version)
        if actions is None:
            raise LogError(f"the log of {path} has lost the entry of version {version}")
        state.take(version, actions)
    return state.snapshot()


def _followed(known: Snapshot) -> Snapshot:
    state: _State | None = None
    version = known.version
    while (actions := read_entry(known.path, version + 1)) is not None:
        version += 1
        state = state or _State(known.path, known)
        state.take(version, actions)
    return known if state is None else state.snapshot()


class _State:
    """A state that takes entries."""

    def __init__(self, path: str, known: Snapshot | None = None) -> None:
        self._path = path
        self._version = -1
        self._metadata: Mapping[str, Any] | None = None if known is None else known.metadata
        self._protocol: Mapping[str, Any] | None = None if known is None else known.protocol
        self._transactions = {} if known is None else dict(known.transactions)
        self._lineage = object() if known is None else known.lineage

    def take(self, version: int, actions: Sequence[Action]) -> None:
        self._version = version
        try:
            for one in actions:
                if (found := one.get("txn")) is not None:
                    self._transactions[found["appId"]] = int(found["version"])
                elif (found := one.get("metaData")) is not None:
                    self._metadata = found
                elif (found := one.get("protocol")) is not None:
                    self._protocol = found
            if any("metaData" in one or "protocol" in one for one in actions):
                _check(self._metadata, self._protocol)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as why:
            raise LogError(
                f"the entry {entry_path(self._path, version)} of the table's log does not read"
                f" ({type(why).__name__}: {why})"
            ) from why

    def take_checkpoint(self, version: int) -> None:
        file = checkpoint_path(self._path, version)
        try:
            with files.parquet(file) as source:
                rows: list[Action] = []
                for name in ("protocol", "metaData", "txn"):
                    for column in source.read(columns=[name]).columns:
                        rows += ({name: _plain(one)} for one in column.drop_null().to_pylist())
        except (OSError, KeyError, IndexError, pa.ArrowInvalid) as why:
            raise LogError(f"the checkpoint {file} does not read ({first_line(why)})") from why
        self.take(version, rows)

    def snapshot(self) -> Snapshot:
        if self._metadata is None or self._protocol is None:
            raise LogError(f"the log of {self._path} does not begin with the table's metadata")
        return Snapshot(
            self._path,
            self._version,
            self._metadata,
            self._protocol,
            self._transactions,
            self._lineage,
        )


def _check(metadata: Any, protocol: Any) -> None:
    """Raises an error unless the two are as Delta has them."""
    if metadata is not None:
        dict(metadata.get("configuration") or {})
        list(metadata.get("partitionColumns") or ())
        Schema.from_json(metadata["schemaString"])
        if not isinstance(metadata["id"], str):
            raise TypeError("the table's id is no text")
    if protocol is not None:
        protocol.get("minReaderVersion")


def _plain(value: Any) -> Any:
    """Returns a row of a checkpoint in the form of an entry: a map is a list of pairs in Arrow."""
    if not isinstance(value, dict):
        return value
    return {
        name: dict(one) if name in _MAPS and one is not None else _plain(one)
        for name, one in value.items()
    }
