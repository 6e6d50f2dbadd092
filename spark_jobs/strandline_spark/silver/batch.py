"""The driver's part in silver: a micro-batch is judged by what its tasks found, and committed to
bronze, silver and quarantine, in this order.

Each table has the batch's transaction and fences of its own, so wherever the driver dies, the batch
runs again and goes into those that lack it: a range gives the same records, and a record parses the
same way each time.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import TableError
from strandline_spark.fenced_table import DataFile
from strandline_spark.manifests import (
    Taken,
    accounts_of,
    check_account,
    with_what_files_hold,
)
from strandline_spark.micro_batch import MicroBatchWriter
from strandline_spark.parsing.checks import column_type
from strandline_spark.parsing.inference import merge_fields, narrowest
from strandline_spark.silver.names import objection
from strandline_spark.silver.range_output import SilverManifest
from strandline_spark.silver.tables import QuarantineTable, SilverTable, type_of_delta
from strandline_spark.silver.widening import widen
from strandline_spark.table import BronzeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from strandline_spark.commits import CommittedRange
    from strandline_spark.fenced_table import FencedTable
    from strandline_spark.manifests import BatchRange
    from strandline_spark.micro_batch import BatchReport
    from strandline_spark.pipeline.config import Pipeline

_SAMPLES_MAX: Final = 3
_FIELDS_SHOWN: Final = 10
COLUMNS_MAX: Final = 1_000
"""Of one table, beyond which new fields make none: names that are data would never end."""


class ColumnsAdded(Exception):
    """Silver has new columns: the batch runs again with them."""


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A range's account in bronze, and what became of it beyond."""

    account: CommittedRange
    ingest_date: str
    host: str
    manifest: SilverManifest


class SilverBatchWriter(MicroBatchWriter):
    """`foreachBatch` of a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        offsets_file: str,
        on_batch: Callable[[BatchReport], None],
        after_batch: Callable[[DataFrame], None],
        check_workers: Callable[[], None],
    ) -> None:
        """`after_batch` is called once all tables hold the batch."""
        super().__init__(
            table_path=pipeline.bronze,
            checkpoint=pipeline.checkpoint,
            offsets_file=offsets_file,
            direct=True,
            on_batch=on_batch,
            check_workers=check_workers,
        )
        self._pipeline = pipeline
        self._after_batch = after_batch
        self.added: dict[str, str] = {}
        """Columns that the last batch made: it is to run again, with them."""

    def open_tables(self) -> Sequence[FencedTable]:
        pipeline = self._pipeline
        return [
            BronzeTable.open(pipeline.bronze),
            SilverTable.open(pipeline.silver),
            QuarantineTable.open(pipeline.quarantine),
        ]

    def take(
        self, frame: DataFrame, batch_id: int, query: str, ranges: list[BatchRange]
    ) -> Sequence[Taken]:
        rows: list[Any] = frame.collect()
        accounts, files = accounts_of(rows, ranges)
        parsed = [
            _Parsed(account, row.ingest_date, row.host, SilverManifest.from_json(row.silver))
            for row, account in zip(rows, accounts, strict=True)
        ]
        self._check_new_fields(parsed)
        self._check_limit(parsed)
        return [Taken(accounts, files), _taken(parsed, "silver"), _taken(parsed, "quarantine")]

    def after_batch(self, frame: DataFrame) -> None:
        self._after_batch(frame)

    def _check_new_fields(self, parsed: list[_Parsed]) -> None:
        found: dict[str, str] = {}
        topics: dict[str, str] = {}
        for one in parsed:
            merge_fields(found, one.manifest.new_fields)
            for name in one.manifest.new_fields:
                topics.setdefault(name, one.account.topic)
        if not found:
            return
        table = SilverTable.open(self._pipeline.silver)
        columns = list(table.parsed_columns())
        named = self._pipeline.parse.columns
        wider = {
            name: found[name] for name in sorted(found) if name in columns and name not in named
        }
        self._add_columns(table, {n: t for n, t in found.items() if n not in wider}, topics)
        if wider:
            bronze = BronzeTable.open(self._pipeline.bronze)
            before = table.parsed_columns()
            for name, kind in widen(table, bronze, wider).items():
                self.added[name] = f"{kind} in place of {type_of_delta(before[name])}"
        raise ColumnsAdded(", ".join(found))

    def _add_columns(
        self, table: SilverTable, found: dict[str, str], topics: dict[str, str]
    ) -> None:
        if not found:
            return
        columns = list(table.parsed_columns())
        refused: dict[str, str] = {}
        for name in sorted(found):
            why = objection(name, columns)
            if why is None:
                columns.append(name)
            else:
                refused[name] = f"; {why}"
        if refused or not self._pipeline.adds_columns or len(columns) > COLUMNS_MAX:
            raise TableError(self._not_added(refused or dict.fromkeys(found, ""), found, topics))
        added = {name: column_type(narrowest(types)) for name, types in sorted(found.items())}
        table.add_columns(added)
        self.added = {name: kind.name for name, kind in added.items()}

    def _not_added(
        self, which: dict[str, str], found: dict[str, str], topics: dict[str, str]
    ) -> str:
        """`which`: why each of them cannot have a column of its name, where it is so."""
        names = sorted(which)
        shown = ", ".join(
            f"{_shown(name)} ({narrowest(found[name])}, in topic {topics[name]}{which[name]})"
            for name in names[:_FIELDS_SHOWN]
        )
        more = "" if len(names) <= _FIELDS_SHOWN else f" and {len(names) - _FIELDS_SHOWN} more"
        said = f"records have fields that are no columns: {shown}{more}; nothing was committed."
        where = f"[silver.columns] of {self._pipeline.file}"
        if which[names[0]]:
            as_field = json.dumps(names[0], ensure_ascii=False).replace("\x7f", "\\u007f")
            return (
                f"{said} Add a column of another name to {where}, for instance my_column ="
                f' {{ type = "{narrowest(found[names[0]])}", field = {as_field} }}'
            )
        if self._pipeline.adds_columns:
            return (
                f"{said} With them silver would have over {COLUMNS_MAX:,} columns: such names are"
                " data; let producers put them into one object, which becomes a text"
            )
        return f'{said} Add them to {where}, or say on_new_field = "add"'

    def _check_limit(self, parsed: list[_Parsed]) -> None:
        bad = sum(one.manifest.quarantine["rows"] for one in parsed)
        rows = sum(one.account.rows for one in parsed)
        if not self._pipeline.limit.is_passed(bad, rows):
            return
        reasons: Counter[str] = Counter()
        for one in parsed:
            reasons.update(one.manifest.reasons)
        counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
        samples = [
            f"{one.account.topic}/{one.account.partition} {one.manifest.sample}"
            for one in parsed
            if one.manifest.sample is not None
        ]
        raise TableError(
            f"{bad:,} of {rows:,} records of a batch do not parse, above quarantine_limit ="
            f" {self._pipeline.limit} ({counts}); for instance {'; '.join(samples[:_SAMPLES_MAX])}."
            f" Nothing was committed: correct [silver] of {self._pipeline.file}, or raise the limit"
        )


def _shown(name: str) -> str:
    """In one line: the names are data."""
    return name if name and name.isprintable() else repr(name)


def _taken(parsed: list[_Parsed], table: str) -> Taken:
    """What silver or quarantine takes of the ranges."""
    accounts, files = [], []
    for one in parsed:
        found: dict[str, Any] = getattr(one.manifest, table)
        account = replace(
            one.account,
            rows=found["rows"],
            elsewhere=one.account.rows - found["rows"],
            leader_epoch_min=None,
            leader_epoch_max=None,
        )
        own = []
        if found["path"] is not None:
            own.append(
                DataFile(
                    topic=account.topic,
                    ingest_date=one.ingest_date,
                    partition=account.partition,
                    host=one.host,
                    **found,
                )
            )
        check_account(account, own)
        accounts.append(with_what_files_hold(account, own))
        files += own
    _check_sums(parsed)
    return Taken(accounts, files)


def _check_sums(parsed: list[_Parsed]) -> None:
    """No record is lost between the tables."""
    for one in parsed:
        rows = one.manifest.silver["rows"] + one.manifest.quarantine["rows"]
        if rows != one.account.rows:
            raise TableError(
                f"{one.account.tp}: {rows} rows were parsed of {one.account.rows}; nothing was"
                " committed, start the job again"
            )
