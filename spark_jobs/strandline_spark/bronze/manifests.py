"""The comparison of what the tasks of a micro-batch wrote with the plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.bronze.footers import read_footer
from strandline_spark.cluster.offsets import TopicPartition, names
from strandline_spark.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Taken:
    """The part of a batch that one table takes."""

    accounts: list[CommittedRange]
    files: list[DataFile]
    reasons: dict[str, int] = field(default_factory=dict)
    """Number of rows of quarantine for each reason."""


@dataclass(frozen=True, slots=True)
class BatchRange:
    tp: TopicPartition
    start: int
    end: int
    topic_id: bytes | None
    """Topic id; None if an earlier version planned the batch and kept no ids."""
    leader_epoch: int
    """Epoch of the leader when the range was planned; -1 if unknown."""


def accounts_of(
    manifests: Iterable[Any], ranges: list[BatchRange]
) -> tuple[list[CommittedRange], list[DataFile]]:
    """Returns the accounts and files that the tasks report, which must be exactly those planned."""
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
        check_account(account, own)
        accounts.append(with_what_files_hold(account, own))
        files += own
    planned = {(one.tp, one.start, one.end) for one in ranges}
    check_complete({(one.tp, one.start, one.end) for one in accounts}, planned)
    return accounts, files


def with_what_files_hold(account: CommittedRange, files: list[DataFile]) -> CommittedRange:
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


def must(holds: bool, otherwise: str) -> None:
    """Raises an error unless the report of executors holds: then nothing is committed."""
    if not holds:
        raise TableError(f"{otherwise}; nothing was committed, start the job again")


def check_complete(got: set[Any], planned: set[Any]) -> None:
    must(got <= planned, f"files for {got - planned}, which the batch does not read")
    if planned and isinstance(next(iter(planned))[0], TopicPartition):
        must(got == planned, f"no manifest for {names({p[0] for p in planned - got})}")


def check_account(account: CommittedRange, files: list[DataFile]) -> None:
    """Checks that there are as many rows as the range has offsets, minus those without a record and
    those whose record went to another table.
    """
    span = account.end - account.start
    known = account.rows + account.lost + account.elsewhere
    exact = account.skipped is None or known + account.skipped == span
    must(exact, f"{account}: rows, skipped and lost offsets do not add up to {span}")
    must(known <= span, f"{account}: more rows than offsets")
    for file in files:
        inside = account.start <= file.offset_min <= file.offset_max < account.end
        must(inside, f"{file.path} holds offsets outside [{account.start}, {account.end})")


def described(path: str, relative: str, topic: str, date: str) -> DataFile:
    """Returns a file that Spark wrote, from its Parquet footer. A task writes one partition's
    records.
    """
    footer = read_footer(path)
    first, last = footer.partition
    must(first == last, f"{path} holds partitions {first} to {last}")
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
