"""The checks of a job's surroundings before any table is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strandline_spark.bronze.audit import accounts
from strandline_spark.bronze.checkpoint import has_folders, read_checkpoint
from strandline_spark.bronze.micro_batch import app_id
from strandline_spark.cluster.cluster import Cluster, unknown
from strandline_spark.errors import DataLoss, OptionError, TableError
from strandline_spark.source.losses import JOB_DELETION_WAYS_OUT, Loss, Reason, described
from strandline_spark.spark.session import check_java
from strandline_spark.spark.workers import check_python_here

if TYPE_CHECKING:
    from strandline_spark.bronze.bronze import BronzeJob
    from strandline_spark.bronze.checkpoint import Checkpoint
    from strandline_spark.bronze.columns import BronzeTable
    from strandline_spark.source.offsets import Offsets

HISTORY_COMMITS_MAX: Final = 1000
"""Number of commits whose log entries are read for a table's topic ids and epochs when a checkpoint
starts, before its audit is.
"""


def check_apart(table: str, checkpoint: str) -> None:
    """Raises OptionError if one is inside the other: each would contain the other's files."""
    folders = [os.path.realpath(path) for path in (table, checkpoint)]
    if os.path.commonpath(folders) in folders:
        raise OptionError(
            f"--checkpoint {checkpoint!r} and --table {table!r} are one folder, or one is in the"
            " other; give each a folder of its own"
        )


def check_surroundings(job: BronzeJob, table: BronzeTable | None) -> None:
    """Checks Java, the workers' Python, the topics, and the checkpoint of `table`, which may not
    exist yet. Raises StrandlineSparkError, and then nothing was made.
    """
    check_java()
    check_python_here(job.worker_python)
    found = read_checkpoint(job.checkpoint)
    if found is None and has_folders(job.checkpoint):
        raise _of_another(job)
    read = None if found is None else _check_checkpoint(found, job, table)
    _, absent = Cluster(job.bootstrap.split(",")).existing(job.topics)
    if absent and read is None and table is not None:
        read = {one.tp: one.end for _, one in accounts(table, HISTORY_COMMITS_MAX)}
    _must_exist(absent, table, read or {})
    _make_checkpoint(job)


def _must_exist(absent: set[str], table: BronzeTable | None, read: Offsets) -> None:
    """Raises DataLoss for missing topics that the job has read, else UnknownTopic. Offsets that the
    table does not hold were planned at most.
    """
    lost = []
    for tp, end in read.items():
        if tp.topic in absent:
            held = None if table is None else table.end(tp)
            what = f"topic {tp.topic} does not exist"
            lost.append(Loss(tp, end if held is None else held, None, Reason.DELETION, what))
    if lost:
        raise DataLoss(f"{described(lost)}.{JOB_DELETION_WAYS_OUT}")
    if absent:
        raise unknown(absent)


def _check_checkpoint(found: Checkpoint, job: BronzeJob, table: BronzeTable | None) -> Offsets:
    """Returns the end of the checkpoint's last batch. Raises TableError unless the table holds the
    batches that the checkpoint counts as done, and its newest offsets are readable.
    """
    held = None if table is None else table.committed_batch(app_id(found.query))
    if found.done and held is None:
        raise _of_another(job)
    if held is not None:
        found.check_planned()
    ends: Offsets = {}
    for batch in found.planned[-1:]:
        ends = found.end(batch).ends
    return ends


def _of_another(job: BronzeJob) -> TableError:
    return TableError(
        f"{job.checkpoint} is a checkpoint of another job or of another table; give an empty path"
    )


def _make_checkpoint(job: BronzeJob) -> None:
    """Makes the checkpoint's folder and its log file. Raises OptionError on failure."""
    try:
        os.makedirs(os.path.dirname(job.log_file), exist_ok=True)
        with open(job.log_file, "ab"):
            pass
    except OSError as why:
        raise OptionError(
            f"the checkpoint {job.checkpoint} cannot be written ({why}): give a folder of its own,"
            " where you may write"
        ) from why
