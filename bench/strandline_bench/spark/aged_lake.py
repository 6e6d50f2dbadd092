"""The tables of a pipeline that has run for hours or weeks: bronze, silver, quarantine and a gold
step, with a micro-batch of three partitions every ten seconds.

Only the data files of the newest batches exist. Nothing that is measured reads others.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from strandline_bench.spark.aged_audit import split_audit
from strandline_bench.spark.aged_log import AgedCommit, AgedLog

if TYPE_CHECKING:
    from strandline_spark.bronze.commits import Commit, CommittedRange
    from strandline_spark.bronze.fenced_table import DataFile, FencedTable
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.pipeline.steps import GoldStep

BATCH_S: Final = 10
PARTITIONS: Final = 3
ROWS: Final = 100
"""Rows of one partition in a batch."""
WINDOW_US: Final = 60_000_000
WEEK_BATCHES: Final = 7 * 86_400 // BATCH_S
TOPIC_ID: Final = "AAECAwQFBgcICQoLDA0ODw"
JOB: Final = "strandline-bronze:bench"
NAME: Final = "bench"
SQL: Final = """
SELECT window_start, window_end, count(*) AS clicks, sum(price) AS revenue
FROM silver
GROUP BY ALL
"""
_PIPELINE: Final = f"""
[pipeline]
name = "{NAME}"
topics = ["t"]

[bronze]
table = "bronze"

[silver]
table = "silver"
quarantine = "quarantine"
format = "json"
event_time = "timestamp"

[silver.columns]
id = "bigint"
price = "double"
"""
_START_US: Final = 1_767_225_600_000_000 // WINDOW_US * WINDOW_US
_OPTIONS: Final = {"compression": "snappy"}


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables in a folder, after a number of batches."""

    folder: str
    batches: int
    files_of: int
    """Number of the newest batches whose data files exist."""

    @property
    def bronze(self) -> str:
        return os.path.join(self.folder, "bronze")

    @property
    def silver(self) -> str:
        return os.path.join(self.folder, "silver")

    @property
    def quarantine(self) -> str:
        return os.path.join(self.folder, "quarantine")

    @property
    def step(self) -> "GoldStep":
        from strandline_spark.pipeline.steps import GoldStep

        table = os.path.join(self.folder, "gold")
        return GoldStep("per_minute", table, SQL, 1, watermark=0, window=WINDOW_US)

    def make(self) -> None:
        """Makes bronze, silver and quarantine."""
        from strandline_spark.bronze.audit import AuditCopier

        for table in tables_of(self):
            log = AgedLog(table.path, WEEK_BATCHES)
            log.write(self.commits(table), self.batches)
            AuditCopier(table.path).copy(type(table).open(table.path))

    def commits(
        self, table: "FencedTable", taken: "list[Commit] | None" = None
    ) -> Iterator[AgedCommit]:
        """Yields the commits of the past, and adds their accounts to `taken`."""
        from strandline_spark.bronze.commits import Commit

        now_ms = time.time_ns() // 1_000_000
        for batch in range(self.batches):
            files, ranges = batch_of(table, batch, write=batch >= self.batches - self.files_of)
            time_ms = now_ms - (self.batches - batch) * BATCH_S * 1000
            if taken is not None:
                taken.append(Commit(batch + 1, time_ms, JOB, batch, ranges))
            kept = batch >= self.batches - WEEK_BATCHES
            yield _committed(table, batch, files, ranges, time_ms, with_info=kept)


def make_noted(lake: Lake) -> "Pipeline":
    """Makes bronze, silver and quarantine. Their older files are empty, and noted as verified.
    Returns the pipeline that they are of.
    """
    from strandline_spark.pipeline.config import parse_pipeline

    for table in tables_of(lake):
        _make_noted_table(lake, table)
    return parse_pipeline(_PIPELINE, os.path.join(lake.folder, "pipeline.toml"))


def _make_noted_table(lake: Lake, table: "FencedTable") -> None:
    from strandline_spark.bronze.audit import AuditCopier
    from strandline_spark.verification.accounts import Accounts, read
    from strandline_spark.verification.noted_runs import FileRuns, Note, accounts_hash, write

    log = AgedLog(table.path, WEEK_BATCHES)
    taken: list[Commit] = []
    log.write(lake.commits(table, taken), lake.batches)
    AuditCopier(table.path).copy(type(table).open(table.path), taken[::-1])
    split_audit(table.path)
    verified = lake.batches - lake.files_of
    found = []
    epoch = 0 if table.KIND == "bronze" else -1
    for add in log.adds[: -PARTITIONS * lake.files_of]:
        path = os.path.join(table.path, add["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        partition, start = (int(one) for one in os.path.basename(path)[:26].split("-"))
        run = (partition, start, start + ROWS, epoch, epoch)
        found.append((add["path"], 0, os.stat(path).st_mtime_ns, [run]))
    accounts = Accounts.of_commits(taken)
    note = Note(verified, accounts_hash(accounts, verified), FileRuns.read(found))
    write(table.path, table.id, "t", note)
    state = replace(type(table).open(table.path).state, version=verified)
    read(type(table)(state, table.path), full=False)  # it notes what it parses


def tables_of(lake: Lake) -> "list[FencedTable]":
    """Returns bronze, silver and quarantine; the first call makes them."""
    from strandline_spark.bronze.columns import BronzeTable
    from strandline_spark.silver.tables import QuarantineTable, SilverTable

    return [
        BronzeTable.open_or_create(lake.bronze, NAME),
        SilverTable.open_or_create(lake.silver, _columns(), NAME),
        QuarantineTable.open_or_create(lake.quarantine, NAME),
    ]


def event_time(batch: int) -> int:
    """Returns the first event time of a batch."""
    return _START_US + batch * BATCH_S * 1_000_000


def batch_of(
    table: "FencedTable", batch: int, *, write: bool, time_us: int | None = None
) -> "tuple[list[DataFile], list[CommittedRange]]":
    """Returns what a table takes of a batch. With `write` its files exist."""
    from strandline_spark.bronze.commits import CommittedRange

    first_us = event_time(batch) if time_us is None else time_us
    is_quarantine = table.KIND == "quarantine"
    files, ranges = [], []
    for partition in range(PARTITIONS):
        start = batch * ROWS
        if not is_quarantine:
            files.append(_file(table, partition, start, first_us, write=write))
        ranges.append(
            CommittedRange(
                "t",
                TOPIC_ID,
                partition,
                start,
                start + ROWS,
                rows=0 if is_quarantine else ROWS,
                skipped=0,
                leader_epoch=0,
                high_watermark=start + ROWS,
                elsewhere=ROWS if is_quarantine else 0,
            )
        )
    return files, ranges


def _committed(
    table: "FencedTable",
    batch: int,
    files: Any,
    ranges: Any,
    time_ms: int,
    *,
    with_info: bool,
) -> AgedCommit:
    from strandline_spark.bronze.commits import to_metadata
    from strandline_spark.delta_log.commit import Change

    change = Change()
    for file in files:
        table.add_to(change, file)
    fences = {f"strandline/{one.topic}/{one.partition}": one.end for one in ranges}
    info = {"strandline": to_metadata(JOB, batch, ranges)} if with_info else {}
    return AgedCommit(change.adds, {JOB: batch, **fences}, info, time_ms)


def _columns() -> Any:
    from strandline_spark.parsing.parts.type_names import column_type

    return {"id": column_type("bigint"), "price": column_type("double")}


def _file(
    table: "FencedTable", partition: int, start: int, first_us: int, *, write: bool
) -> "DataFile":
    from strandline_spark.bronze.fenced_table import DataFile

    day = datetime.fromtimestamp(first_us / 1e6, UTC).date().isoformat()
    path = f"topic=t/ingest_date={day}/{partition:05d}-{start:020d}.parquet"
    size = _written(table, path, partition, start, first_us) if write else 3_000
    last_us = first_us + (ROWS - 1) * (BATCH_S * 1_000_000 // ROWS)
    return DataFile(
        path,
        size,
        "t",
        day,
        partition,
        ROWS,
        start,
        start + ROWS - 1,
        0,
        0,
        timestamp_min_ms=first_us // 1000,
        timestamp_max_ms=last_us // 1000,
        event_time_min_us=first_us,
        event_time_max_us=last_us,
    )


def _written(table: "FencedTable", path: str, partition: int, start: int, first_us: int) -> int:
    from strandline_spark.bronze.columns import FILE_SCHEMA
    from strandline_spark.bronze.range_file import RangeFile
    from strandline_spark.silver.tables import silver_file_schema
    from strandline_spark.source.schema import TIMESTAMP_TYPE

    schema = FILE_SCHEMA if table.KIND == "bronze" else silver_file_schema(_columns())
    step = BATCH_S * 1_000_000 // ROWS
    times = pa.array(first_us + np.arange(ROWS) * step).cast(TIMESTAMP_TYPE)
    offsets = np.arange(start, start + ROWS)
    values = [json.dumps({"id": n, "price": 0.5}).encode() for n in offsets.tolist()]
    known = {
        "partition": pa.array(np.full(ROWS, partition, np.int32)),
        "offset": pa.array(offsets),
        "timestamp": times,
        "event_time": times,
        "timestamp_type": pa.array(np.zeros(ROWS, np.int32)),
        "value": pa.array(values, pa.binary()),
        "tombstone": pa.repeat(pa.scalar(False), ROWS),
        "leader_epoch": pa.array(np.zeros(ROWS, np.int32)),
        "id": pa.array(offsets),
        "price": pa.array(np.full(ROWS, 0.5)),
        "batch_id": pa.array(np.full(ROWS, start // ROWS)),
    }
    arrays = [known.get(one.name, pa.nulls(ROWS, one.type)) for one in schema]
    file = RangeFile(table.path, path, schema, _OPTIONS)
    file.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    size: int = file.description(file.close())["size"]
    return size
