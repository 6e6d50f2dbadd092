"""One micro-batch of the bronze job: from what Spark planned to one Delta commit, exactly once.

Spark logs the batch's end offsets in the checkpoint before it runs the batch, and that it is done
after. Between the two the table is committed. Wherever the driver dies, the batch runs again with
the same offsets: the table then says that it has it (skip), or it does not (commit). Files of a
run that did not get to its commit are not part of the table.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.commits import CommittedRange
from strandline_spark.errors import TableError
from strandline_spark.offsets import Offsets, TopicPartition, from_json, names
from strandline_spark.positions import PositionFiles
from strandline_spark.table import BronzeTable, DataFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

STAGING: Final = "_staging"
"""Where Spark writes in dataframe mode; files move from there to their place by a rename."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What became of one micro-batch."""

    batch_id: int
    rows: int
    size: int
    files: int
    version: int
    skipped: bool
    """The table had it already: the driver died between the table's commit and Spark's."""


@dataclass(frozen=True, slots=True)
class BatchRange:
    tp: TopicPartition
    start: int
    end: int


class MicroBatchWriter:
    """`foreachBatch` of the job."""

    def __init__(
        self,
        *,
        table_path: str,
        checkpoint: str,
        offsets_file: str,
        direct: bool,
        on_batch: Callable[[BatchReport], None],
    ) -> None:
        self._table_path = table_path
        self._checkpoint = checkpoint
        self._positions = PositionFiles(offsets_file)
        self._direct = direct
        self._on_batch = on_batch

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query is not None, "Spark set no query id"
        app_id = f"strandline-bronze:{query}"
        # The handle comes first: whatever is committed after it makes our own commit a conflict.
        table = BronzeTable.open(self._table_path)
        ranges = self._ranges(batch_id)
        committed = table.committed_batch(app_id)
        if committed is not None and committed >= batch_id:
            for one in ranges:
                table.check_held(one.tp, one.end, last=committed == batch_id)
            self._on_batch(BatchReport(batch_id, 0, 0, 0, table.version, skipped=True))
            return
        for one in ranges:
            table.check_fence(one.tp, one.start)
        if self._direct:
            accounts, files = _collect_manifests(frame, ranges)
        else:
            accounts, files = self._write_frame(frame, batch_id, query, ranges)
        table.commit(app_id, batch_id, accounts, files)
        rows, size = sum(file.rows for file in files), sum(file.size for file in files)
        report = BatchReport(batch_id, rows, size, len(files), table.version, skipped=False)
        self._on_batch(report)

    def _ranges(self, batch_id: int) -> list[BatchRange]:
        """What Spark logged for the batch: [end of the batch before, end) of what moved."""
        end = read_offset_log(self._checkpoint, batch_id)
        initial = self._positions.initial()
        if initial is None:
            raise TableError(
                f"{self._positions.path} is gone, in which the job keeps its initial offsets; "
                "restore it, or start a new checkpoint"
            )
        start = initial if batch_id == 0 else read_offset_log(self._checkpoint, batch_id - 1)
        # A partition that is new to the query starts at 0: the source reports it otherwise.
        found = [BatchRange(tp, start.get(tp, 0), end[tp]) for tp in end]
        return [one for one in found if one.end != one.start]

    def _write_frame(
        self, frame: DataFrame, batch_id: int, query: str, ranges: list[BatchRange]
    ) -> tuple[list[CommittedRange], list[DataFile]]:
        """Spark writes to a staging directory; each file then gets its place by a rename."""
        date = datetime.now(UTC).date().isoformat()
        staging = os.path.join(self._table_path, STAGING, query)
        shutil.rmtree(staging, ignore_errors=True)
        columns = _bronze_columns(frame, batch_id)
        writer = columns.write.partitionBy("topic").option("compression", "zstd")
        writer.mode("append").parquet(f"file://{os.path.abspath(staging)}")
        files = [
            self._place(staging, directory, name, date)
            for directory, _, file_names in os.walk(staging)
            for name in sorted(file_names)
            if name.endswith(".parquet")
        ]
        shutil.rmtree(staging, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(staging))
        return self._accounts(ranges, files), files

    def _place(self, staging: str, directory: str, name: str, date: str) -> DataFile:
        topic = os.path.relpath(directory, staging).removeprefix("topic=")
        path = f"topic={topic}/ingest_date={date}/{name}"
        target = os.path.join(self._table_path, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(os.path.join(directory, name), target)
        return _described(target, path, topic, date)

    def _accounts(self, ranges: list[BatchRange], files: list[DataFile]) -> list[CommittedRange]:
        lineage = self._positions.lineage()
        ids = lineage.to_data()["topic_ids"]
        accounts = []
        for one in ranges:
            own = [f for f in files if (f.topic, f.partition) == one.tp]
            epoch = lineage.epoch_of(one.tp, one.end)
            accounts.append(
                CommittedRange(
                    one.tp.topic,
                    ids[one.tp.topic],
                    one.tp.partition,
                    one.start,
                    one.end,
                    rows=sum(file.rows for file in own),
                    skipped=None,
                    leader_epoch=-1 if epoch is None else epoch,
                )
            )
            _check_account(accounts[-1], own)
        _check_complete({(f.topic, f.partition) for f in files}, {one.tp for one in ranges})
        return accounts


def read_offset_log(checkpoint: str, batch_id: int) -> Offsets:
    """The end offsets that Spark logged for a batch: version, metadata, a line a source."""
    path = os.path.join(checkpoint, "offsets", str(batch_id))
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        if len(lines) != 3 or lines[0] != "v1":
            raise ValueError("three lines, the first of them v1, are expected")
        return from_json(json.loads(lines[2]))
    except (ValueError, RecursionError) as why:
        raise TableError(
            f"{path} is not an offset log of one source, version 1 ({why}); restore it, or start a"
            " new checkpoint"
        ) from why


def _collect_manifests(
    frame: DataFrame, ranges: list[BatchRange]
) -> tuple[list[CommittedRange], list[DataFile]]:
    """Runs the tasks. Their manifests must cover exactly what Spark planned."""
    accounts, files = [], []
    for row in frame.collect():
        own = []
        if row.path is not None:
            own.append(
                DataFile(
                    path=row.path,
                    size=row.size,
                    topic=row.topic,
                    ingest_date=row.ingest_date,
                    partition=row.partition,
                    rows=row.rows,
                    offset_min=row.offset_min,
                    offset_max=row.offset_max,
                    leader_epoch_min=row.leader_epoch_min,
                    leader_epoch_max=row.leader_epoch_max,
                )
            )
        account = CommittedRange(
            row.topic,
            row.topic_id,
            row.partition,
            row.start,
            row.stop,
            rows=row.rows,
            skipped=row.skipped,
            leader_epoch=row.leader_epoch,
        )
        _check_account(account, own)
        accounts.append(account)
        files += own
    planned = {(one.tp, one.start, one.end) for one in ranges}
    _check_complete({(one.tp, one.start, one.end) for one in accounts}, planned)
    return accounts, files


def _must(holds: bool, otherwise: str) -> None:
    """Of what executors wrote: nothing is committed that does not hold."""
    if not holds:
        raise TableError(f"{otherwise}; nothing was committed, start the job again")


def _check_complete(got: set[Any], planned: set[Any]) -> None:
    _must(got <= planned, f"files for {got - planned}, which the batch does not read")
    if planned and isinstance(next(iter(planned))[0], TopicPartition):
        _must(got == planned, f"no manifest for {names({p[0] for p in planned - got})}")


def _check_account(account: CommittedRange, files: list[DataFile]) -> None:
    """Rows are as many as the range has offsets, less those known to hold no record."""
    span = account.end - account.start
    exact = account.skipped is None or account.rows + account.skipped == span
    _must(exact, f"{account}: rows and skipped offsets do not add up to {span}")
    _must(account.rows <= span, f"{account}: more rows than offsets")
    for file in files:
        inside = account.start <= file.offset_min <= file.offset_max < account.end
        _must(inside, f"{file.path} holds offsets outside [{account.start}, {account.end})")


def _bronze_columns(frame: DataFrame, batch_id: int) -> DataFrame:
    from pyspark.sql import functions as sql

    return frame.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        sql.col("timestampType").alias("timestamp_type"),
        "key",
        "value",
        "headers",
        sql.col("leaderEpoch").alias("leader_epoch"),
        sql.lit(batch_id).cast("long").alias("batch_id"),
    )


def _described(path: str, relative: str, topic: str, date: str) -> DataFile:
    """A file that Spark wrote, from its Parquet footer. A task writes one partition's records."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    footer = pq.read_metadata(path)
    bounds = {}
    columns = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    for name in ("partition", "offset", "leader_epoch"):
        groups = range(footer.num_row_groups)
        found = [footer.row_group(g).column(columns[name]).statistics for g in groups]
        bounds[name] = (min(s.min for s in found), max(s.max for s in found))
    first, last = bounds["partition"]
    _must(first == last, f"{path} holds partitions {first} to {last}")
    return DataFile(
        path=relative,
        size=os.path.getsize(path),
        topic=topic,
        ingest_date=date,
        partition=first,
        rows=footer.num_rows,
        offset_min=bounds["offset"][0],
        offset_max=bounds["offset"][1],
        leader_epoch_min=bounds["leader_epoch"][0],
        leader_epoch_max=bounds["leader_epoch"][1],
    )
