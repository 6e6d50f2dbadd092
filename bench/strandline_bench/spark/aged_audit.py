"""The audit of a table that a job has followed for days: a file for each twenty commits."""

import os
import time

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction


def split_audit(table: str) -> None:
    """Replaces the one file of the table's audit by those that a job would have written."""
    from strandline_spark.bronze.audit import COMMITS_MAX, audit_path

    path = audit_path(table)
    audit = DeltaTable(path)
    (whole,) = pa.table(audit.get_add_actions()).to_pylist()
    rows = pq.read_table(os.path.join(path, whole["path"]))
    now_ms = time.time_ns() // 1_000_000
    gone = RemoveAction(whole["path"], data_change=False, deletion_timestamp=now_ms)
    changes: list[AddAction | RemoveAction] = [gone]
    versions = rows.column("table_version")
    last = pc.max(versions).as_py()
    for first in range(0, last + 1, COMMITS_MAX):
        end = min(first + COMMITS_MAX, last + 1)
        start, stop = (pc.sum(pc.less(versions, one)).as_py() or 0 for one in (first, end))
        name = f"{end:020d}-aged.parquet"
        file = os.path.join(path, name)
        pq.write_table(rows.slice(start, stop - start), file, compression="zstd")
        stats = f'{{"numRecords": {stop - start}}}'
        changes.append(AddAction(name, os.path.getsize(file), {}, now_ms, False, stats))
    audit.create_write_transaction(changes, "append", audit.schema())
    os.unlink(os.path.join(path, whole["path"]))
