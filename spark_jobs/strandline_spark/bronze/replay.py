"""`replay`: a range of a topic into an empty bronze table, independent of any job's checkpoint.

It reads and writes like a task of direct mode, one partition after the other in this process, and
makes one commit. So the table has the whole range, or stays empty.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

from strandline_proto.errors import WireError
from strandline_spark.bronze.audit import AuditCopier
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.manifests import BatchRange, accounts_of
from strandline_spark.bronze.micro_batch import BatchReport
from strandline_spark.bronze.task_files import write_range
from strandline_spark.cluster.cluster import close_channels
from strandline_spark.errors import DataLoss, OptionError, TableError
from strandline_spark.source.losses import for_replay
from strandline_spark.source.options import check_for_batch
from strandline_spark.source.planner import Planner
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from strandline_spark.source.options import SourceOptions
    from strandline_spark.source.splitting import PlannedRange

BATCH_ID = 0
"""The batch id: a replay is one batch of its own job."""


def replay(options: SourceOptions, table_path: str, note: Callable[[str], None]) -> BatchReport:
    """Runs the replay. Raises StrandlineSparkError, and then the table is still empty."""
    check_for_batch(options)
    try:
        planned = Planner(options).batch_ranges()
        if not planned:
            raise OptionError("there is nothing between --from and --to; give a wider range")
        table = _empty(table_path)
        manifests = _written(options, planned, table_path, note)
    except DataLoss as why:
        raise DataLoss(for_replay(str(why))) from why
    except WireError as why:
        raise TableError(f"{table_path} stays empty, for the topic does not read: {why}") from why
    except OSError as why:
        raise TableError(f"{table_path} stays empty, for it cannot be written: {why}") from why
    finally:
        close_channels()
    ranges = [
        BatchRange(one.tp, one.start, one.stop, one.topic_id, one.leader_epoch) for one in planned
    ]
    accounts, files = accounts_of([SimpleNamespace(**one) for one in manifests], ranges)
    table.commit(f"strandline-replay:{os.urandom(8).hex()}", BATCH_ID, accounts, files)
    AuditCopier(table_path).copy(table)
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    return BatchReport(BATCH_ID, rows, size, len(files), table.version, skipped=False)


def _empty(table_path: str) -> BronzeTable:
    """Returns the handle of an empty table, opened before the check. So any later commit for these
    partitions makes our own commit a conflict.
    """
    table = BronzeTable.open_or_create(table_path)
    if table.file_paths() or table.commits():
        raise TableError(
            f"{table_path} holds records already; a replay goes into an empty table: give a new"
            " path"
        )
    return table


def _written(
    options: SourceOptions,
    planned: list[PlannedRange],
    table_path: str,
    note: Callable[[str], None],
) -> list[dict[str, Any]]:
    manifests: list[dict[str, Any]] = []
    try:
        for one in planned:
            manifests.append(write_range(options, one, table_path, BATCH_ID))
            note(f"{one.tp} [{one.start}, {one.stop}): {manifests[-1]['rows']:,} rows")
    except BaseException:
        for made in manifests:
            if made["path"] is not None:
                files.remove(os.path.join(table_path, made["path"]))
        raise
    return manifests
