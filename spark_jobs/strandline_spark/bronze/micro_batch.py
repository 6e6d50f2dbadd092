"""One micro-batch: from Spark's plan to one Delta commit in bronze, exactly once.

Spark logs the batch's end offsets in the checkpoint before it runs the batch, and logs it as done
afterwards. The table is committed between the two. Wherever the driver dies, the batch runs again
with the same offsets. Then the table either has the batch (skip) or not (commit). Files of a run
that did not commit are not part of the table. Other tables take the batch after the bronze commit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.audit import AuditCopier
from strandline_spark.bronze.checkpoint import read_offset_log
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.fenced_table import committing
from strandline_spark.bronze.manifests import (
    BatchRange,
    Taken,
    accounts_of,
    check_account,
    check_complete,
    described,
    with_what_files_hold,
)
from strandline_spark.cluster.offsets import (
    StreamOffset,
    begins,
)
from strandline_spark.errors import EnvironmentProblem, TableError
from strandline_spark.source.positions import PositionFiles
from strandline_spark.stores.durable import sync, sync_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from strandline_spark.bronze.fenced_table import DataFile, FencedTable
    from strandline_spark.cluster.offsets import TopicPartition

STAGING: Final = "_staging"
"""Spark's folder in dataframe mode; a rename moves the files from there to their place."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The result of one micro-batch."""

    batch_id: int
    rows: int
    size: int
    files: int
    version: int
    skipped: bool
    """True if the table had it already: the driver died between the table's commit and Spark's."""
    lost: int = 0
    """Offsets whose records retention had removed."""
    quarantined: int = 0
    """Rows of a pipeline that did not parse."""
    parsed: int = 0
    """Rows that silver took."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Number of quarantined rows for each reason."""


class MicroBatchWriter:
    """The function for `foreachBatch` of the job."""

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
        self._check_workers = check_workers
        self._audits: dict[str, AuditCopier] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:
            raise EnvironmentProblem(
                "Spark set no sql.streaming.queryId: the writer is for streaming queries alone"
            )
        job = app_id(query)
        # The handle is opened first: any later commit makes our own commit a conflict.
        table = BronzeTable.open(self._table_path)
        ranges = self._ranges(batch_id)
        if _holds(table, job, batch_id, ranges):
            self._on_batch(BatchReport(batch_id, 0, 0, 0, table.version, skipped=True))
            self.after_batch(frame)
            return
        for one in ranges:
            table.check_fence(one.tp, one.start)
        self._check_workers()
        before = {one.tp: table.end(one.tp) for one in ranges}
        taken = self.take(frame, batch_id, query, ranges)
        # A commit may clean the log of entries that are days old.
        self.copy_audit_if_due(table)
        # Check the executors that have joined meanwhile.
        self._check_workers()
        table.commit(job, batch_id, taken.accounts, taken.files)
        others = self.take_beyond(job, batch_id, before)
        self._on_batch(_reported(batch_id, table.version, taken, others))
        self.after_batch(frame)

    def copy_audit_if_due(self, table: FencedTable) -> None:
        self._audits.setdefault(table.path, AuditCopier(table.path)).copy_if_due(table)

    def take(self, frame: DataFrame, batch_id: int, query: str, ranges: list[BatchRange]) -> Taken:
        """Carries the batch out, and returns what the table takes of it."""
        if self._direct:
            return Taken(*accounts_of(frame.collect(), ranges))
        return Taken(*self._write_frame(frame, batch_id, query, ranges))

    def take_beyond(
        self, job: str, batch_id: int, before: Mapping[TopicPartition, int | None]
    ) -> Sequence[Taken]:
        """Returns what other tables took of the batch, which the bronze table holds now: pairs of a
        silver table and its quarantine. The batch before it ended at `before`.
        """
        return ()

    def after_batch(self, frame: DataFrame) -> None:
        """Acts once the bronze table holds the batch."""

    def _ranges(self, batch_id: int) -> list[BatchRange]:
        """Returns the ranges that Spark logged for the batch: [end of the previous batch, end) of
        each partition that advanced.
        """
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
        """Lets Spark write to a staging directory; each file then gets its place by a rename."""
        date = datetime.now(UTC).date().isoformat()
        staging = os.path.join(self._table_path, STAGING, query)
        shutil.rmtree(staging, ignore_errors=True)
        columns = _bronze_columns(frame, batch_id)
        writer = columns.write.partitionBy("topic").option("compression", "zstd")
        writer.mode("append").parquet(f"file://{os.path.abspath(staging)}")
        with committing(self._table_path):
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
        return described(target, path, topic, date)

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
            check_account(account, own)
            accounts.append(with_what_files_hold(account, own))
        check_complete({(f.topic, f.partition) for f in files}, {one.tp for one in ranges})
        return accounts


def _holds(table: FencedTable, job: str, batch_id: int, ranges: list[BatchRange]) -> bool:
    """True if the table has the batch. Raises FenceError if it has another one of that number."""
    committed = table.committed_batch(job)
    if committed is None or committed < batch_id:
        return False
    for one in ranges:
        table.check_held(one.tp, one.end, last=committed == batch_id)
    # The driver that committed it may have died before it was synced.
    table.sync_log()
    return True


def _reported(batch_id: int, version: int, taken: Taken, others: Sequence[Taken]) -> BatchReport:
    files = [file for one in (taken, *others) for file in one.files]
    return BatchReport(
        batch_id,
        rows=sum(account.rows for account in taken.accounts),
        size=sum(file.size for file in files),
        files=len(files),
        version=version,
        skipped=False,
        lost=sum(account.lost for account in taken.accounts),
        quarantined=sum(account.rows for one in others[1::2] for account in one.accounts),
        parsed=sum(account.rows for one in others[::2] for account in one.accounts),
        reasons=dict(sum((Counter(one.reasons) for one in others), Counter())),
    )


def app_id(query: str) -> str:
    """Returns the name of a query in the table's transactions."""
    return f"strandline-bronze:{query}"


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
