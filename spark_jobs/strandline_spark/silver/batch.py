"""The driver's part in silver. The driver judges a micro-batch that bronze holds by the reports of
its tasks, and commits it to silver and quarantine, in this order.

Bronze continues without silver. Rows that silver lacks for any reason come from bronze later
(`catch_up`): a record parses in the same way each time.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from strandline_spark.bronze.audit import AuditCopier
from strandline_spark.bronze.manifests import Taken, accounts_of
from strandline_spark.bronze.micro_batch import MicroBatchWriter
from strandline_spark.errors import StrandlineSparkError, TableError
from strandline_spark.pipeline.columns import with_columns_of
from strandline_spark.silver.judge import (
    Judge,
    ParsedRange,
    check_sums,
    columns_noted,
    discard,
    taken,
)
from strandline_spark.silver.range_output import SilverManifest
from strandline_spark.silver.tables import QuarantineTable, SilverTable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame

    from strandline_spark.bronze.commits import CommittedRange
    from strandline_spark.bronze.manifests import BatchRange
    from strandline_spark.bronze.micro_batch import BatchReport
    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.parsing.settings import ParseSettings
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.pipeline.failures import Failures


class ColumnsAdded(Exception):
    """Silver has new columns, so the query restarts with tasks that know them."""


class SilverPart:
    """The driver's part in one silver table and its quarantine table."""

    def __init__(self, pipeline: Pipeline, note: Callable[[str], None], failures: Failures) -> None:
        """Prepares the part; `pipeline` is seen from its silver table."""
        self.pipeline = pipeline
        self.step = pipeline.silver_step
        self._note = note
        self._failures = failures
        self._judge = Judge(pipeline)
        self._parsed: list[ParsedRange] = []
        self._audits = (AuditCopier(pipeline.silver), AuditCopier(pipeline.quarantine))
        self.is_behind = False
        """True if bronze holds rows that silver or quarantine lacks."""
        self.known: Collection[str] = ()
        """The columns into which the tasks parse."""
        self.added: dict[str, str] = {}
        """Columns that the last batch made; the query must restart with them."""

    @property
    def stands(self) -> bool:
        """True if the tables lack rows, or have failed."""
        return self.is_behind or self._failures.has(self.step)

    def settings(self, silver: SilverTable) -> ParseSettings:
        """Returns how values are parsed into the present table."""
        return with_columns_of(self.pipeline, silver).parse

    def take_added(self) -> dict[str, str]:
        """Returns the columns that the tasks do not know yet."""
        added, self.added = self.added, {}
        return added

    def hold(self, rows: Sequence[Any], accounts: Sequence[CommittedRange]) -> None:
        """Holds the batch's ranges of its topics, with the manifests of their tasks."""
        own = [
            (row, account)
            for row, account in zip(rows, accounts, strict=True)
            if self.pipeline.takes(account.topic)
        ]
        self._parsed = [
            ParsedRange(account, row.ingest_date, row.host, SilverManifest.from_json(row.silver))
            for row, account in own
            if row.silver is not None
        ]
        # Duplicates are found in the order of offsets, behind what silver holds.
        if len(self._parsed) < len(own) or (own and self.pipeline.parse.dedupe_key):
            self._parsed, self.is_behind = [], True

    def take(
        self,
        job: str,
        batch_id: int,
        before: Mapping[TopicPartition, int | None],
        lock: threading.Lock,
    ) -> Sequence[Taken]:
        """Returns what the two tables take of the batch that is held; nothing if they cannot."""
        parsed, self._parsed = self._parsed, []
        out: Sequence[Taken] = ()
        if self._failures.has(self.step):
            self.is_behind = True
        elif parsed and not self.is_behind:
            self.is_behind = True
            with lock, self._failures.guard(self.step):
                out = self._commit(job, batch_id, parsed, before)
                self.is_behind = not out
        if self.is_behind:
            self._discard(parsed)
        return out

    def _commit(
        self,
        job: str,
        batch_id: int,
        parsed: list[ParsedRange],
        before: Mapping[TopicPartition, int | None],
    ) -> Sequence[Taken]:
        """Returns what the tables take; nothing if a table does not end where bronze did. Its rows
        then come from bronze, in order.
        """
        tables = (
            SilverTable.open(self.pipeline.silver),
            QuarantineTable.open(self.pipeline.quarantine),
        )
        own = {tp: end for tp, end in before.items() if self.pipeline.takes(tp.topic)}
        if any(table.end(tp) != end for table in tables for tp, end in own.items()):
            return ()
        for one in parsed:
            if one.manifest.failed is not None:
                raise TableError(
                    f"{one.account.tp} from offset {one.account.start} on could not be parsed, or"
                    f" its files not be written ({one.manifest.failed}); bronze goes on"
                )
        self.added = self._judge.new_columns(parsed, self.known)
        if self.added:
            self._note(columns_noted(self.added))
            return ()
        self._judge.check_limit(parsed)
        check_sums(parsed)
        for said in self._judge.notes(parsed):
            self._note(said)
        out = []
        for table, copier in zip(tables, self._audits, strict=True):
            copier.copy_if_due(table)
            part = taken(parsed, table.KIND)
            table.commit(job, batch_id, part.accounts, part.files)
            out.append(part)
        return out

    def _discard(self, parsed: list[ParsedRange]) -> None:
        """Removes the files that silver does not take, except those that it already holds."""
        pipeline = self.pipeline
        with contextlib.suppress(StrandlineSparkError):
            tables = (SilverTable.open(pipeline.silver), QuarantineTable.open(pipeline.quarantine))
            discard(pipeline, parsed, *(set(table.file_paths()) for table in tables))


class SilverBatchWriter(MicroBatchWriter):
    """The function for `foreachBatch` of a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        offsets_file: str,
        on_batch: Callable[[BatchReport], None],
        after_batch: Callable[[DataFrame], None],
        check_workers: Callable[[], None],
        note: Callable[[str], None],
        failures: Failures,
        lock: threading.Lock,
    ) -> None:
        """Prepares the writer. `after_batch` is called once bronze holds the batch. Each committer
        to silver holds the `lock`.
        """
        super().__init__(
            table_path=pipeline.bronze,
            checkpoint=pipeline.checkpoint,
            offsets_file=offsets_file,
            direct=True,
            on_batch=on_batch,
            check_workers=check_workers,
        )
        self._after_batch = after_batch
        self._lock = lock
        self.parts = [SilverPart(one, note, failures) for one in pipeline.parts]

    def take(self, frame: DataFrame, batch_id: int, query: str, ranges: list[BatchRange]) -> Taken:
        rows: list[Any] = frame.collect()
        accounts, files = accounts_of(rows, ranges)
        for part in self.parts:
            part.hold(rows, accounts)
        return Taken(accounts, files)

    def take_beyond(
        self, job: str, batch_id: int, before: Mapping[TopicPartition, int | None]
    ) -> Sequence[Taken]:
        """Returns what the tables took: of each silver table, and of quarantine behind it."""
        return [one for part in self.parts for one in part.take(job, batch_id, before, self._lock)]

    def after_batch(self, frame: DataFrame) -> None:
        self._after_batch(frame)
        added = [name for part in self.parts for name in part.added]
        if added:
            raise ColumnsAdded(", ".join(added))
