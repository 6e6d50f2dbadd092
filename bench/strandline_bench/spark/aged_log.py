"""The log of a Delta table after days of a job, written directly: an entry for each commit that
the log still keeps, and a checkpoint.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from strandline_spark.delta_log.entries import checkpoint_path, entry_path, read_entry

_TEXTS = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    [
        pa.field(
            "protocol",
            pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        ),
        pa.field(
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        pa.field("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        pa.field(
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                ]
            ),
        ),
    ]
)


@dataclass(slots=True)
class AgedCommit:
    """One commit of the past."""

    adds: list[dict[str, Any]]
    transactions: Mapping[str, int]
    info: Mapping[str, Any]
    time_ms: int


@dataclass(slots=True)
class AgedLog:
    """The log of a new table at `path`, to which commits of the past are added."""

    path: str
    entries_kept: int
    """Number of the newest commits whose entries the log still has."""
    adds: list[dict[str, Any]] = field(default_factory=list)
    _transactions: dict[str, int] = field(default_factory=dict)

    def write(self, commits: Iterator[AgedCommit], number: int) -> None:
        """Writes the commits, and a checkpoint of the last one but ten, like a job."""
        head = read_entry(self.path, 0)
        assert head is not None, self.path
        checkpoint = max(1, number - 10)
        for version, one in enumerate(commits, 1):
            if version > number - self.entries_kept or version > checkpoint:
                self._write_entry(version, one)
            self.adds += one.adds
            self._transactions |= one.transactions
            if version == checkpoint:
                self._write_checkpoint(version, head)
        if self.entries_kept < number:
            os.unlink(entry_path(self.path, 0))

    def _write_entry(self, version: int, one: AgedCommit) -> None:
        info = {"timestamp": one.time_ms, "operation": "WRITE", **one.info}
        actions = [
            {"commitInfo": info},
            *({"txn": {"appId": a, "version": v}} for a, v in one.transactions.items()),
            *({"add": add} for add in one.adds),
        ]
        with open(entry_path(self.path, version), "x", encoding="utf-8") as file:
            file.write("".join(json.dumps(action) + "\n" for action in actions))

    def _write_checkpoint(self, version: int, head: list[dict[str, Any]]) -> None:
        found = {name: action[name] for action in head for name in action}
        metadata = found["metaData"]
        rows = [
            {"protocol": found["protocol"]},
            {
                "metaData": metadata
                | {
                    "configuration": list(metadata["configuration"].items()),
                    "format": {"provider": "parquet", "options": []},
                }
            },
            *({"txn": {"appId": a, "version": v}} for a, v in self._transactions.items()),
        ]
        small = pa.Table.from_pylist(rows, schema=_SCHEMA)
        with pq.ParquetWriter(checkpoint_path(self.path, version), _SCHEMA) as writer:
            writer.write_table(small)
            for first in range(0, len(self.adds), 50_000):
                some = [
                    {"add": one | {"partitionValues": list(one["partitionValues"].items())}}
                    for one in self.adds[first : first + 50_000]
                ]
                writer.write_table(pa.Table.from_pylist(some, schema=_SCHEMA))
        size = len(rows) + len(self.adds)
        last = os.path.join(self.path, "_delta_log", "_last_checkpoint")
        with open(last, "w", encoding="utf-8") as file:
            json.dump({"version": version, "size": size}, file)
