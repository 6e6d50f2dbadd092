"""The run of a gold step: silver moves the watermark, the windows that it closes are computed, and
one commit adds their rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from strandline_spark.bronze.fenced_table import committing
from strandline_spark.delta_log.aside import end_removal
from strandline_spark.errors import TableError
from strandline_spark.gold.account import GoldAccount
from strandline_spark.gold.batch import compute, framing_of
from strandline_spark.gold.definition import definition_of
from strandline_spark.gold.silver import Silver
from strandline_spark.gold.table import GoldTable
from strandline_spark.gold.watermark import (
    GoldCommit,
    PartitionProgress,
    next_of_topics,
    next_watermark,
)
from strandline_spark.stores.durable import sync_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.pipeline.steps import GoldStep


@dataclass(frozen=True, slots=True)
class StepReport:
    """The result of a step's run. Times are microseconds."""

    step: str
    version: int | None
    """Version of the committed gold table; None if no window closed and no row came late."""
    watermark: int | None
    """Watermark of the newest commit; None before the first."""
    rows: int = 0
    late: int = 0
    files: int = 0
    """Number of silver's files that were read for the windows that closed; 0 if none did."""
    updated: int | None = None
    """Number of earlier windows that late rows changed; None if the step leaves such rows out."""


def run_step(
    spark: SparkSession,
    step: GoldStep,
    silver_path: str,
    *,
    pipeline: str,
    close: bool = False,
    backlog: Mapping[TopicPartition, bool] | None = None,
    note: Callable[[str], None] = lambda line: None,
    clock: Callable[[], float] = time.time,
) -> StepReport:
    """Closes the windows that can close, with `close` all that have a row.

    `backlog` is True for each partition with more records to come; None takes it from silver's own
    log at the version that is read. Raises OptionError and TableError; earlier commits stay.
    """
    schema = Silver.open(silver_path).schema()
    definition = definition_of(spark, step, schema)
    begin_again(step, Silver.open(silver_path), pipeline, note)
    # Gold is opened first: any later commit to it makes this commit a conflict.
    gold = GoldTable.open_or_create(step, pipeline, definition.columns, definition.identity)
    silver = Silver.open(silver_path)
    last = gold.last()
    before = None if last is None else last.closed
    previous = None if last is None else last.watermark
    if last is not None:
        _check_silver(step.name, gold, silver, last)
    watermark = (
        _final(step, silver, previous)
        if close
        else _watermark(step, silver, previous, backlog, clock)
    )
    if watermark is None:
        return StepReport(step.name, None, previous)
    commit = GoldCommit(watermark, silver.ends)
    batch = compute(spark, step, silver, before, commit)
    if batch is None and before is not None and not step.updates:
        # No window closes now, and perhaps never will. Late rows are reported all the same.
        commit = replace(commit, watermark=before.commit.watermark)
        batch = compute(spark, step, silver, before, commit)
    if batch is None:
        return StepReport(step.name, None, previous)
    # Silver must be synced first: gold's commit on it must not survive silver's own.
    with committing(silver.path):
        sync_log(silver.path, silver.version)
    account = GoldAccount(
        number=1 if last is None else last.number + 1,
        closed=batch.closed,
        previous=previous,
        silver_id=silver.id,
        silver_version=silver.version,
        rows=batch.rows.num_rows,
        late=batch.late,
        definition=definition.identity,
        updated=len(batch.replaced) if step.updates else None,
    )
    version = gold.commit(batch.rows, account, batch.replaced)
    gold.clean()
    return StepReport(
        *(step.name, version, commit.watermark, account.rows, account.late, batch.files),
        account.updated,
    )


def begin_again(step: GoldStep, silver: Silver, pipeline: str, note: Callable[[str], None]) -> None:
    """Moves the step's table aside if silver was rebuilt since: silver has other rows now."""
    end_removal(step.table)
    if not silver.is_rebuilt or not DeltaTable.is_deltatable(step.table):
        return
    gold = GoldTable.open(step, pipeline)
    last = gold.last()
    if last is not None and last.silver_id != silver.id:
        aside = gold.set_aside()
        note(
            f"gold {step.name}: silver was rebuilt, so it begins again over all of silver; the"
            f" table as it was: {aside}"
        )


def _watermark(
    step: GoldStep,
    silver: Silver,
    previous: int | None,
    backlog: Mapping[TopicPartition, bool] | None,
    clock: Callable[[], float],
) -> int | None:
    since = None if step.idle_after is None else int(clock() * 1e6) - step.idle_after
    progress = silver.progress(silver.backlog() if backlog is None else backlog, since)
    if not step.delays:
        return next_watermark(previous, progress, step.watermark)
    delays = dict(step.delays)
    # A topic that never had a row is idle as soon as the table is old enough.
    if since is not None and silver.is_older_than(since):
        silent = delays.keys() - {one.topic for one in progress}
        progress += (PartitionProgress(None, False, topic, is_idle=True) for topic in silent)
    return next_of_topics(previous, progress, delays)


def _final(step: GoldStep, silver: Silver, previous: int | None) -> int | None:
    """Returns the watermark that closes all windows with a row."""
    latest = silver.latest_event_time()
    if latest is None:
        return previous
    final = framing_of(step).final(latest)
    return final if previous is None else max(previous, final)


def _check_silver(step: str, gold: GoldTable, silver: Silver, last: GoldAccount) -> None:
    """Raises TableError unless this is the silver table from which gold was computed, and no
    earlier version.
    """
    ends = last.closed.commit.ends
    back = [tp for tp, end in ends.items() if silver.ends.get(tp, 0) < end]
    if last.silver_id != silver.id or silver.version < last.silver_version or back:
        raise TableError(
            f"{gold.path} was computed from another silver table than {silver.path}, or from a"
            f" later version of it ({last.silver_version}, this is {silver.version}): put silver"
            f" back, or `strandline-spark gold reset {step}` with the pipeline's file begins the"
            " step again over all of silver"
        )
