"""`verify`: the proof, from the rows, that the bronze table holds each offset of a topic once.

The rows' offsets are read file by file and folded into runs of consecutive offsets, so memory grows
with the number of runs, not of rows. Runs that overlap are doubles. Offsets between runs are gaps,
unless the commit of their range counted them as empty or as lost. The rows are also compared with
the accounts of the commits (ranges, rows, topic ids), from the log or the audit, and with the
cluster's high watermark.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import TableError
from strandline_spark.maintenance import removals
from strandline_spark.verification.accounts import NO_RANGES
from strandline_spark.verification.intervals import Intervals
from strandline_spark.verification.readings import Readings
from strandline_spark.verification.runs import NO_RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.cluster.cluster import Marks
    from strandline_spark.verification.accounts import Ranges
    from strandline_spark.verification.runs import Runs


@dataclass(slots=True)
class PartitionFindings:
    """The findings about one partition in the table."""

    topic: str
    partition: int
    rows: int = 0
    first_offset: int = -1
    end_offset: int = -1
    """End of the table by its own account."""
    gaps: int = 0
    """Offsets without a row that no commit counts as empty."""
    doubles: int = 0
    """Extra rows: the same offset again."""
    skipped: int = 0
    """Offsets without a record (control batches), as the commits counted them."""
    lost: int = 0
    """Offsets whose records retention had removed, as the commits counted them."""
    removed: int = 0
    """Rows that `retention` or `forget` has removed from the table."""
    unchecked: int = -1
    """Rows whose records the topic no longer holds; -1 if values were not compared."""
    differing: int = -1
    """Rows that differ from the topic's records; -1 if values were not compared."""
    high_watermark: int = -1
    lag: int = -1
    problems: list[str] = field(default_factory=list)

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def sound(self) -> bool:
        return not self.problems


def verify(
    table_path: str,
    topic: str,
    bootstrap: str | None,
    *,
    complete: bool = False,
    allow_lost: bool = False,
    values: bool = False,
    may_lack: bool = False,
    full: bool = True,
    readings: Readings | None = None,
) -> list[PartitionFindings]:
    """Returns one finding for each partition, in order.

    `complete` demands that the table has all that the topic has, `allow_lost` accepts offsets that
    retention removed, and `values` reads the topic again and compares each row with its record.
    Unless `full`, only files that no earlier verification has noted are read. `readings` has what
    another part of this verification has read.
    Raises TableError if the table has nothing of the topic, unless it `may_lack` it or the topic is
    empty.
    """
    table = BronzeTable.open(table_path)
    seen = (readings or Readings(full=full)).of(table)
    held, accounts = seen.runs(topic), seen.accounts.of_topic(topic)
    held.check_accounts(accounts)
    gone = removals.removed(removals.read(table.state))
    log_start = table.log_start()
    taken = {p: accounts.of_partition(p, log_start) for p in accounts.partitions()}
    partitions = sorted({*held.of, *taken})
    found = [
        check_partition(
            TopicPartition(topic, p),
            held.of.get(p, NO_RUNS),
            taken.get(p, NO_RANGES),
            table.end(TopicPartition(topic, p)),
            gone.get(TopicPartition(topic, p), ()),
        )
        for p in partitions
    ]
    if bootstrap is not None:
        _compare_with_cluster(topic, found, taken, bootstrap, table if values else None)
    if not (partitions or may_lack or (found and all(one.lag == 0 for one in found))):
        raise TableError(f"{table_path} holds nothing of topic {topic}; ingest it first")
    if found:
        found[0].problems += held.problems
    if all(one.sound for one in found):
        held.note(accounts)
    for finding in found:
        if complete and finding.lag > 0:
            finding.problems.append(f"{finding.lag} offsets of the topic are not in the table yet")
        if not allow_lost and finding.lost > 0:
            finding.problems.append(f"{finding.lost} offsets were lost to retention")
    return found


def check_partition(
    tp: TopicPartition,
    runs: Runs,
    ranges: Ranges,
    fence: int | None,
    removed: Sequence[tuple[int, int]] = (),
) -> PartitionFindings:
    """Judges one partition from its runs, the ranges of its commits, and the end of the table. Rows
    at the offsets `removed` are gone on purpose.
    """
    found = PartitionFindings(tp.topic, tp.partition)
    found.rows = runs.rows
    covered, gone = runs.covered(), Intervals.of_pairs(removed)
    found.doubles = found.rows - covered.length
    found.first_offset = int(covered.starts[0]) if covered.length else -1
    last = int(covered.ends[-1]) if covered.length else 0
    found.end_offset = last if fence is None else fence
    if found.doubles > 0:
        found.problems.append(f"{found.doubles} rows repeat an offset")
    if runs.epochs_fall():
        found.problems.append("leader epochs go back as offsets rise")
    if last > found.end_offset:
        found.problems.append(f"rows go up to {last}, past the table's end {found.end_offset}")
    again = covered.common(gone)
    found.removed = gone.length - again
    if again > 0:
        found.problems.append(f"{again} rows are there that were removed from the table")
    _check_ranges(found, ranges, covered | gone)
    return found


def _check_ranges(found: PartitionFindings, ranges: Ranges, covered: Intervals) -> None:
    """Checks that every offset of a range is a row or counted as empty, that ranges join, and that
    there is no gap elsewhere.
    """
    starts, ends = ranges.starts, ranges.ends
    # Of ranges that are known from the audit alone, those between may be lost.
    may_lack = np.arange(1, len(ranges)) <= ranges.audited
    hole = np.flatnonzero(may_lack & (ends[:-1] < starts[1:]))
    width = starts[hole + 1] - ends[hole] - covered.held_in(ends[hole], starts[hole + 1])
    found.gaps += int(width.sum())
    is_apart = ends[:-1] != starts[1:]
    is_apart[hole] = False
    for n in np.flatnonzero(is_apart).tolist():
        found.problems.append(f"commits took in up to {ends[n]}, then from {starts[n + 1]}")
    held = covered.held_in(starts, ends)
    found.skipped += int(ranges.skipped.sum())
    found.lost += int(ranges.lost.sum())
    missing = ends - starts - held - ranges.skipped - ranges.lost
    found.gaps += int(missing[missing > 0].sum())
    for n in np.flatnonzero((missing < 0) | (held != ranges.rows)).tolist():
        place, rows = f"[{starts[n]}, {ends[n]})", ranges.rows[n]
        found.problems.append(
            f"{place} holds {held[n]} rows, {rows} counted"
            if missing[n] < 0
            else f"{place} was committed with {rows} rows, {held[n]} are there"
        )
    # Ranges that are neither in the log nor in the audit are judged by the rows alone.
    known_from = int(starts[0]) if len(ranges) else found.end_offset
    first = int(covered.starts[0]) if covered.length else -1
    if 0 <= first < known_from:
        before = covered.held_in(np.array([first]), np.array([known_from]))
        found.gaps += known_from - first - int(before[0])
    if found.gaps > 0:
        found.problems.append(f"{found.gaps} offsets have no row")


def _compare_with_cluster(
    topic: str,
    found: list[PartitionFindings],
    ranges: dict[int, Ranges],
    bootstrap: str,
    with_values_of: BronzeTable | None,
) -> None:
    from strandline_spark.cluster.cluster import Cluster, close_channels

    cluster = Cluster(bootstrap.split(","), read_committed=True)
    try:
        # A topic that is gone does not exempt the table's rows from the check.
        leaders = cluster.existing([topic])[0] if found else cluster.leaders([topic])
        marks = cluster.marks(leaders)
        _compare_with_marks(found, ranges, marks)
        if with_values_of is not None:
            from strandline_spark.bronze.verify_values import compare_values

            for one in found:
                topic_id = ranges.get(one.partition, NO_RANGES).topic_id
                mark = marks.get(one.tp)
                if mark is None or topic_id not in (None, topic_id_text(mark.topic_id)):
                    one.unchecked, one.differing = one.rows, 0
                else:
                    compare_values(one, with_values_of, mark, cluster.bootstrap)
    finally:
        close_channels()


def _compare_with_marks(
    found: list[PartitionFindings], ranges: dict[int, Ranges], marks: Marks
) -> None:
    known = {one.partition for one in found}
    found += [PartitionFindings(t.topic, t.partition) for t in marks if t.partition not in known]
    found.sort(key=lambda one: one.partition)
    for one in found:
        tp = one.tp
        if tp not in marks:
            one.problems.append(f"the cluster has no such {'partition' if marks else 'topic'}")
            continue
        one.high_watermark = marks[tp].high_watermark
        # A table that never took from the partition starts with its first record.
        end = marks[tp].log_start if one.end_offset < 0 else one.end_offset
        one.lag = max(0, one.high_watermark - end)
        if one.end_offset > one.high_watermark:
            one.problems.append(
                f"the table ends at {one.end_offset}, past the high watermark {one.high_watermark}"
            )
        topic_id = ranges.get(one.partition, NO_RANGES).topic_id
        if topic_id is not None and topic_id != topic_id_text(marks[tp].topic_id):
            one.problems.append("the topic was created again since: another topic id")


def as_json(found: PartitionFindings) -> dict[str, Any]:
    return asdict(found) | {"sound": found.sound}
