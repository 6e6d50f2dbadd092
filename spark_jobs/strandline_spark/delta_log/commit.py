"""A commit to a Delta table: a new entry of its log, written by this program itself.

delta-rs reads the list of all files for each commit, so its cost grows with the table. An entry
needs only the state that `table_log.py` follows.

The rules are Delta's. The entry of a version is made once, by a link that fails if it exists. If
another writer has made it, this commit takes the next version, unless the two conflict:

* the other has one of the transactions of this one: two drivers did the same work
* the other has changed the metadata or the protocol, except that rows may be removed now
* the other has removed a file that this one removes, or adds one that it adds

Appended rows conflict with nothing, because no commit here depends on the rows of others.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from strandline_spark.delta_log.entries import LOG, LogError, entry_path, read_entry
from strandline_spark.stores.durable import sync, write_new
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_spark.delta_log.entries import Action
    from strandline_spark.delta_log.table_log import Snapshot

SAFE: Final = "/=-_.~"
_VERSIONS_MAX: Final = 10_000
"""Commits of others that one commit may follow on."""
_APPEND_ONLY: Final = "delta.appendOnly"
_ENGINE: Final = "strandline-spark"


class UnsyncedError(OSError):
    """The commit was made, and the disk refused to sync it: a loss of power may undo it."""


class ConflictError(Exception):
    """Another writer has made a commit that excludes this one; the message says which."""


@dataclass(slots=True)
class Change:
    """The content of one commit."""

    operation: str = "WRITE"
    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    transactions: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] | None = None
    """New metadata of the table; None to leave it."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """What the commit says of itself, beside Delta's own words."""

    def add(
        self,
        path: str,
        size: int,
        values: Mapping[str, str | None],
        stats: str,
        *,
        data_change: bool = True,
    ) -> None:
        """Adds a file, under the table's folder."""
        self.adds.append(
            {
                "path": quote(path, safe=SAFE),
                "partitionValues": dict(values),
                "size": size,
                "modificationTime": _now_ms(),
                "dataChange": data_change,
                "stats": stats,
            }
        )

    def remove(
        self, path: str, size: int, values: Mapping[str, str | None], *, data_change: bool
    ) -> None:
        """Removes a file, under the table's folder."""
        self.removes.append(
            {
                "path": quote(path, safe=SAFE),
                "deletionTimestamp": _now_ms(),
                "dataChange": data_change,
                "extendedFileMetadata": True,
                "partitionValues": dict(values),
                "size": size,
            }
        )


def commit(read: Snapshot, change: Change) -> int:
    """Commits on the state that was `read`, and returns the new version once it is synced. Raises
    ConflictError if nothing was committed for that reason, LogError, and OSError if the disk
    refuses.
    """
    read.check_writable()
    configuration = read.configuration
    if change.metadata is not None:
        configuration = change.metadata.get("configuration") or {}
    is_append_only = configuration.get(_APPEND_ONLY) == "true"
    if is_append_only and any(one["dataChange"] for one in change.removes):
        raise LogError(
            f"{read.path} is append-only (delta.appendOnly), and rows of it would be removed: take"
            " the setting off the table"
        )
    text = _text(read, change)
    version = read.version + 1
    for _ in range(_VERSIONS_MAX):
        try:
            write_new(entry_path(read.path, version), text)
        except FileExistsError:
            actions = read_entry(read.path, version)
            if actions is not None:  # None: a clean-up of the log has removed it already
                _check(read, change, version, actions)
            version += 1
            continue
        try:
            sync(os.path.join(read.path, LOG))
            sync(read.path)
        except OSError as why:
            raise UnsyncedError(str(why)) from why
        return version
    raise LogError(f"{read.path} got {_VERSIONS_MAX} commits of others during one: run fewer jobs")


def _text(read: Snapshot, change: Change) -> str:
    parameters = {"mode": "Append", "partitionBy": json.dumps(read.partition_columns)}
    info = {
        "timestamp": _now_ms(),
        "operation": change.operation,
        "operationParameters": parameters,
        "engineInfo": _ENGINE,
        **change.info,
    }
    if is_remote(read.path):
        # A store may have made an entry whose acknowledgement was lost: its content tells.
        info["commitId"] = os.urandom(8).hex()
    actions: list[Action] = [{"commitInfo": info}]
    if change.metadata is not None:
        actions.append({"metaData": dict(change.metadata)})
    actions += ({"txn": {"appId": a, "version": v}} for a, v in change.transactions.items())
    actions += ({"remove": one} for one in change.removes)
    actions += ({"add": one} for one in change.adds)
    return "\n".join(map(json.dumps, actions)) + "\n"


def _check(read: Snapshot, change: Change, version: int, actions: Sequence[Action]) -> None:
    """Raises ConflictError if the entry of another writer excludes the change."""
    removed = {one["path"] for one in change.removes}
    added = {one["path"] for one in change.adds}
    removes_rows = any(one["dataChange"] for one in change.removes)
    changes_columns = change.metadata is not None and (
        change.metadata["schemaString"] != read.metadata["schemaString"]
    )
    for action in actions:
        found = action.get("metaData")
        is_other = found is not None and _settings(found) != _settings(read.metadata)
        if is_other or "protocol" in action:
            raise ConflictError(f"version {version} changed the table's columns or settings")
        if found is not None and removes_rows and _is_append_only(found):
            raise ConflictError(f"version {version} made the table append-only")
        if "txn" in action and action["txn"].get("appId") in change.transactions:
            raise ConflictError(f"version {version} has the transaction {action['txn']['appId']}")
        if "remove" in action and action["remove"].get("path") in removed:
            raise ConflictError(f"version {version} removed {action['remove']['path']}")
        if "add" in action and action["add"].get("path") in added:
            raise ConflictError(f"version {version} added {action['add']['path']}")
        if changes_columns and {"add", "remove", "txn"} & action.keys():
            raise ConflictError(f"version {version} was committed before the new columns")


def _is_append_only(metadata: Mapping[str, Any]) -> bool:
    return (metadata.get("configuration") or {}).get(_APPEND_ONLY) == "true"


def _settings(metadata: Mapping[str, Any]) -> Any:
    """Returns what commits of rows depend on: all but whether rows may be removed."""
    configuration = {
        name: value
        for name, value in (metadata.get("configuration") or {}).items()
        if name != _APPEND_ONLY
    }
    names = ("id", "schemaString", "partitionColumns")
    return configuration, [metadata.get(name) for name in names]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
