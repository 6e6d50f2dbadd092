"""`vacuum`: removes data files that are no longer part of a table, or never became one.
Other files in its folder stay.

Such files are of three kinds:

* files that `compact` replaced
* files of tasks whose batch was not committed
* files that Spark wrote for a killed job in dataframe mode with another checkpoint

A file is removed once it has been out of the table for the retention time, which readers of an
earlier version need. Two kinds stay at any age:

* a file of a batch that a running job has not committed yet. Its offsets are at or beyond the
  table's end. (The fence refuses a batch that ends below, so such a batch can never commit.) A
  vacuum that keeps less than a week is refused if it would remove such a file.
* a file that a compaction is writing. A vacuum first commits a maintenance of its own, so a
  compaction that began before it is refused when it commits.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake.exceptions import DeltaError

from strandline_spark.bronze.audit import AuditCopier
from strandline_spark.bronze.compaction import Fence
from strandline_spark.bronze.footers import last_offset
from strandline_spark.bronze.micro_batch import STAGING
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.delta_log.commit import Change
from strandline_spark.errors import TableError, first_line
from strandline_spark.maintenance.tables import AnyTable, Kind
from strandline_spark.stores import files
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_spark.bronze.fenced_table import FencedTable

KEPT_HOURS: Final = 168
KEPT_HOURS_MIN: Final = 1
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Vacuumed:
    files: list[str]
    """Paths under the table's folder."""
    size: int
    version: int


def vacuum(table_path: str, *, kept_hours: int = KEPT_HOURS, dry_run: bool = False) -> Vacuumed:
    """Removes the files. Raises TableError, and then nothing was removed except what its message
    names.
    """
    table = AnyTable.of(table_path)
    if table.kind is Kind.STATE:
        raise TableError(
            f"{table_path} is a state table: its own commits remove old files; name a bronze,"
            " silver, quarantine or gold table"
        )
    if not dry_run:
        if table.kind is not Kind.GOLD:
            AuditCopier(table_path).copy(table)
        Fence(table).commit(Change("VACUUM START"))
    try:
        staged = list(_staged(table_path, kept_hours))
        left = [file for file, is_folder in staged if not is_folder]
        old = sorted({*_out_of_the_table(table, kept_hours), *left})
        size = sum(_size(os.path.join(table_path, file)) for file in old)
        if kept_hours < KEPT_HOURS:
            _check_not_on_their_way(table, old, kept_hours)
        if not dry_run:
            _remove(table_path, old)
            _remove_folders(table_path, [file for file, is_folder in staged if is_folder])
    except DeltaError as why:
        raise TableError(f"{table_path} cannot be vacuumed: {first_line(why)}") from why
    return Vacuumed(old, size, table.version)


def _out_of_the_table(table: AnyTable, kept_hours: int) -> list[str]:
    """Returns the files below the folder that the log does not name, a checkpoint's too, as
    delta-rs finds them.
    """
    found = table.delta.vacuum(
        retention_hours=kept_hours, dry_run=True, enforce_retention_duration=False, full=True
    )
    is_gold = table.kind is Kind.GOLD
    return [
        file
        for file in found
        if file.endswith(".parquet") and ("/" not in file if is_gold else file.startswith("topic="))
    ]


def _staged(table_path: str, kept_hours: int) -> Iterator[tuple[str, bool]]:
    """Yields the paths that jobs of dataframe mode left, contents before their folder, and True for
    a folder. A job's paths are left out if one of them has changed recently.
    """
    limit = time.time() - kept_hours * 3600
    if is_remote(table_path):  # the jobs of dataframe mode write to folders alone
        return
    staging = os.path.join(table_path, STAGING)
    for job in sorted(os.listdir(staging)) if os.path.isdir(staging) else ():
        found: list[tuple[str, bool]] = []
        for folder, _, names in os.walk(os.path.join(staging, job), topdown=False):
            found += [(os.path.join(folder, name), False) for name in names]
            found.append((folder, True))
        if all(_changed(path) < limit for path, _ in found):
            yield from ((os.path.relpath(path, table_path), folder) for path, folder in found)


def _changed(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except FileNotFoundError:
        # Its job is running.
        return time.time()


def _remove_folders(table_path: str, folders: list[str]) -> None:
    """Removes the folders that are empty now. A job may have started again; its files have other
    names.
    """
    for folder in [*folders, STAGING]:
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(table_path, folder))


def _remove(table_path: str, old: list[str]) -> None:
    for number, file in enumerate(old):
        try:
            files.remove(os.path.join(table_path, file))
        except FileNotFoundError:
            continue
        except OSError as why:
            raise TableError(
                f"{why}: see to it that you may write there, then run the command again; {number}"
                f" of {len(old)} files were removed"
            ) from why


def _size(path: str) -> int:
    try:
        return files.size(path)
    except FileNotFoundError:
        return 0


def _check_not_on_their_way(table: FencedTable, old: Iterable[str], kept_hours: int) -> None:
    ahead = [file for file in old if _may_be_committed(table, file)]
    if ahead:
        more = f" and {len(ahead) - _NAMED_MAX} more" if len(ahead) > _NAMED_MAX else ""
        raise TableError(
            f"a job may be about to commit {', '.join(ahead[:_NAMED_MAX])}{more}, older than"
            f" {kept_hours} h: {table.path} does not hold these offsets yet. Let the job finish its"
            f" batch, or keep files for {KEPT_HOURS} h (--keep 7d); nothing was removed"
        )


def _may_be_committed(table: FencedTable, file: str) -> bool:
    topic = next((part[6:] for part in file.split("/") if part.startswith("topic=")), None)
    if topic is None or not file.endswith(".parquet"):
        # Spark keeps these beside its files.
        return False
    try:
        partition, last = last_offset(os.path.join(table.path, file))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, pa.ArrowInvalid):
        # A task may be writing it.
        return True
    end = table.end(TopicPartition(topic, partition))
    return end is None or last >= end
