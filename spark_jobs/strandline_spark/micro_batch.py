"""One micro-batch of the bronze job: from what Spark planned to one Delta commit, exactly once.

Spark logs the batch's end offsets in the checkpoint before it runs the batch, and that it is done
after. Between the two the table is committed. Wherever the driver dies, the batch runs again with
the same offsets: the table then says that it has it (skip), or it does not (commit). Files of a
run that did not get to its commit are not part of the table.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from strandline_proto.ids import topic_id_text
from strandline_spark.audit import AuditCopier
from strandline_spark.commits import CommittedRange
from strandline_spark.durable import sync, sync_names
from strandline_spark.errors import EnvironmentProblem, TableError
from strandline_spark.fenced_table import DataFile
from strandline_spark.footers import read_footer
from strandline_spark.offsets import (
    StreamOffset,
    TopicPartition,
    begins,
    names,
    parse_json,
    stream_from_json,
)
from strandline_spark.positions import PositionFiles
from strandline_spark.table import BronzeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    lost: int = 0
    """Offsets whose records retention had taken."""


@dataclass(frozen=True, slots=True)
class BatchRange:
    tp: TopicPartition
    start: int
    end: int
    topic_id: bytes | None
    """None where an earlier version planned the batch and kept no ids."""
    leader_epoch: int
    """-1 if it is not known."""


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
        check_workers: Callable[[], None] = lambda: None,
    ) -> None:
        self._table_path = table_path
        self._checkpoint = checkpoint
        self._positions = PositionFiles(offsets_file)
        self._direct = direct
        self._on_batch = on_batch
        self._audit = AuditCopier(table_path)
        self._check_workers = check_workers

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:
            raise EnvironmentProblem(
                "Spark set no sql.streaming.queryId: the writer is for streaming queries alone"
            )
        job = app_id(query)
        # The handle comes first: whatever is committed after it makes our own commit a conflict.
        table = BronzeTable.open(self._table_path)
        ranges = self._ranges(batch_id)
        committed = table.committed_batch(job)
        if committed is not None and committed >= batch_id:
            for one in ranges:
                table.check_held(one.tp, one.end, last=committed == batch_id)
            # The driver that committed it may have died before it was on disk.
            table.sync_log()
            self._on_batch(BatchReport(batch_id, 0, 0, 0, table.version, skipped=True))
            return
        for one in ranges:
            table.check_fence(one.tp, one.start)
        self._check_workers()
        if self._direct:
            accounts, files = accounts_of(frame.collect(), ranges)
        else:
            accounts, files = self._write_frame(frame, batch_id, query, ranges)
        # A commit may clean the log of what is days old.
        self._audit.copy_if_due(table)
        # Those that have joined meanwhile.
        self._check_workers()
        table.commit(job, batch_id, accounts, files)
        rows, size = sum(file.rows for file in files), sum(file.size for file in files)
        lost = sum(account.lost for account in accounts)
        report = BatchReport(batch_id, rows, size, len(files), table.version, False, lost)
        self._on_batch(report)

    def _ranges(self, batch_id: int) -> list[BatchRange]:
        """What Spark logged for the batch: [end of the batch before, end) of what moved."""
        end = self._positions.completed(read_offset_log(self._checkpoint, batch_id))
        if batch_id > 0:
            start: StreamOffset | None = read_offset_log(self._checkpoint, batch_id - 1)
        elif end.starts:
            start = None
        else:
            start = self._start_kept_by_an_earlier_version()
        return [
            BatchRange(tp, first, end.ends[tp], end.topic_ids.get(tp.topic), end.epochs.get(tp, -1))
            for tp, first in begins(start, end).items()
            if end.ends[tp] != first
        ]

    def _start_kept_by_an_earlier_version(self) -> StreamOffset:
        initial = self._positions.initial()
        if initial is None:
            raise TableError(
                f"{self._positions.path} is gone, in which the job kept its initial offsets; "
                "restore it, or start a new checkpoint"
            )
        return StreamOffset(initial)

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
        sync(target)
        sync_names(target, self._table_path)
        return _described(target, path, topic, date)

    def _accounts(self, ranges: list[BatchRange], files: list[DataFile]) -> list[CommittedRange]:
        accounts = []
        for one in ranges:
            own = [f for f in files if (f.topic, f.partition) == one.tp]
            if one.topic_id is None:
                raise TableError(
                    f"the checkpoint {self._checkpoint} keeps no id of topic {one.tp.topic};"
                    " start a new one"
                )
            account = CommittedRange(
                one.tp.topic,
                topic_id_text(one.topic_id),
                one.tp.partition,
                one.start,
                one.end,
                rows=sum(file.rows for file in own),
                skipped=None,
                leader_epoch=one.leader_epoch,
            )
            _check_account(account, own)
            accounts.append(_with_what_files_hold(account, own))
        _check_complete({(f.topic, f.partition) for f in files}, {one.tp for one in ranges})
        return accounts


def app_id(query: str) -> str:
    """The name under which a query's batches stand in the table."""
    return f"strandline-bronze:{query}"


def read_query_id(checkpoint: str) -> str | None:
    """The id that Spark gave the checkpoint's query; None if the checkpoint does not say."""
    try:
        with open(os.path.join(checkpoint, "metadata"), encoding="utf-8") as file:
            found = parse_json(file.read())
    except (OSError, ValueError):
        return None
    query = found.get("id") if isinstance(found, dict) else None
    return query if isinstance(query, str) else None


def read_offset_log(checkpoint: str, batch_id: int) -> StreamOffset:
    """The end offsets that Spark logged for a batch: version, metadata, a line a source."""
    path = os.path.join(checkpoint, "offsets", str(batch_id))
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        if len(lines) != 3 or lines[0] != "v1":
            raise ValueError("three lines, the first of them v1, are expected")
        return stream_from_json(parse_json(lines[2]))
    except (OSError, ValueError) as why:
        raise TableError(
            f"{path} is not an offset log of one source, version 1 ({why}); restore it, or start a"
            " new checkpoint"
        ) from why


def accounts_of(
    manifests: Iterable[Any], ranges: list[BatchRange]
) -> tuple[list[CommittedRange], list[DataFile]]:
    """What tasks say that they have written, which must be exactly what was planned."""
    accounts, files = [], []
    for row in manifests:
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
                    host=row.host,
                    timestamp_min_ms=row.timestamp_min_ms,
                    timestamp_max_ms=row.timestamp_max_ms,
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
            lost=row.lost,
            high_watermark=row.high_watermark,
        )
        _check_account(account, own)
        accounts.append(_with_what_files_hold(account, own))
        files += own
    planned = {(one.tp, one.start, one.end) for one in ranges}
    _check_complete({(one.tp, one.start, one.end) for one in accounts}, planned)
    return accounts, files


def _with_what_files_hold(account: CommittedRange, files: list[DataFile]) -> CommittedRange:
    firsts = [file.timestamp_min_ms for file in files if file.timestamp_min_ms is not None]
    lasts = [file.timestamp_max_ms for file in files if file.timestamp_max_ms is not None]
    return replace(
        account,
        size=sum(file.size for file in files),
        offset_min=min((file.offset_min for file in files), default=None),
        offset_max=max((file.offset_max for file in files), default=None),
        leader_epoch_min=min((file.leader_epoch_min for file in files), default=None),
        leader_epoch_max=max((file.leader_epoch_max for file in files), default=None),
        timestamp_min_ms=min(firsts, default=None),
        timestamp_max_ms=max(lasts, default=None),
    )


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
    known = account.rows + account.lost
    exact = account.skipped is None or known + account.skipped == span
    _must(exact, f"{account}: rows, skipped and lost offsets do not add up to {span}")
    _must(known <= span, f"{account}: more rows than offsets")
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
    footer = read_footer(path)
    first, last = footer.partition
    _must(first == last, f"{path} holds partitions {first} to {last}")
    times = footer.timestamp_ms or (None, None)
    return DataFile(
        path=relative,
        size=footer.size,
        topic=topic,
        ingest_date=date,
        partition=first,
        rows=footer.rows,
        offset_min=footer.offset[0],
        offset_max=footer.offset[1],
        leader_epoch_min=footer.leader_epoch[0],
        leader_epoch_max=footer.leader_epoch[1],
        timestamp_min_ms=times[0],
        timestamp_max_ms=times[1],
    )
