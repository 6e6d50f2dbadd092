"""The plan of a query: where it starts, where a micro-batch ends, and what happens if records that
it relies on are gone.

The planner runs on the driver. Spark's use of the answers shapes the rules:

* Spark stores only end offsets. After a restart before batch 0 committed, it asks for the initial
  offset again. So the first batch's end says where the stream began, and that batch is made even if
  there is nothing to read yet.
* Spark compares offsets as text. If nothing advances, the answer is the very offset that Spark
  passed, so a new leader without new records makes no batch.
* An end offset is never below its start, unless records are gone: high watermarks may trail.
* Under availableNow nothing that appeared after its target is read, new partitions included.
* Offsets are tied to a topic id and to a leader epoch (P-82). The losses of all partitions are
  found before any error is raised. Reading continues at the first unread record.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from strandline_spark.cluster.cluster import Cluster, TopicChanged, pauses, unknown
from strandline_spark.cluster.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    StreamOffset,
    TopicPartition,
    begins,
    limited,
    names,
)
from strandline_spark.errors import ClusterUnreachable, OptionError, UnknownTopic
from strandline_spark.source.group_progress import GroupProgress
from strandline_spark.source.history import Found, History, retained
from strandline_spark.source.losses import Loss, Reason, settle
from strandline_spark.source.option_values import NoOffset
from strandline_spark.source.positions import PositionFiles
from strandline_spark.source.splitting import PlannedRange, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_spark.cluster.cluster import Mark, Marks
    from strandline_spark.source.option_values import Position, Times
    from strandline_spark.source.options import SourceOptions

_logger: Final = logging.getLogger(__name__)

TRY_SECONDS: Final = 7.5
"""How long one attempt to plan waits for answers. The default retries outlast an election."""
CHANGING_SECONDS: Final = 300.0
"""Limit of all attempts together."""
TRAILING_SECONDS: Final = 5.0
"""How long planning waits for a high watermark below the start. Then the trigger makes an empty
batch.
"""

_Answer = TypeVar("_Answer")


class Planner:
    """The driver's view of one query. It holds no connection, so it can be pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(
            options.bootstrap, TRY_SECONDS, read_committed=options.read_committed
        )
        self._history = History(self._cluster)
        self._files = PositionFiles(options.initial_offsets_path)
        self._group = (
            None if options.group_id is None else GroupProgress(options.bootstrap, options.group_id)
        )
        self._initial: StreamOffset | None = None
        self._begun = False
        self._target: dict[tuple[bytes, TopicPartition], int] | None = None
        self._planned: tuple[StreamOffset, Marks] | None = None
        self._told: set[Loss] = set()
        self._believed: tuple[StreamOffset, StreamOffset] | None = None
        """The last argument of `_trusted`, and its result."""
        self._waiting_since = time.monotonic()
        self.high_watermarks: Offsets | None = None
        """The ends of the logs at the last micro-batch, without limits and targets, for progress
        reports; None before the first.
        """
        self.ends: Offsets = {}
        """The position of the query after that micro-batch."""

    def initial(self) -> StreamOffset:
        """Returns the start of the query: from the file of an earlier version, or from the options.
        Every call returns the same.
        """
        if self._initial is None:
            stored = self._files.initial()
            self._initial = (
                self._unchanged(self._decide_initial)
                if stored is None
                else self._files.completed(StreamOffset(stored))
            )
        return self._initial

    def take_target(self) -> None:
        """Fixes the offsets that "available now" means."""
        marks, _ = self._unchanged(self._look)
        self._target = {(mark.topic_id, tp): mark.high_watermark for tp, mark in marks.items()}

    def latest(
        self, start: StreamOffset, max_offsets: int | None, *, waits: bool = True
    ) -> StreamOffset:
        """Returns the end of the micro-batch that starts at `start`.

        Returns `start` itself if there is nothing to do, or if the batch `waits` for more offsets.
        """
        known = self._trusted(start)
        found = self._settled(known)
        if self._group is not None and start != self._initial:
            self._group.show(known, found.marks)
        self._settle(found.losses)
        marks = found.marks
        self.high_watermarks = {tp: mark.high_watermark for tp, mark in marks.items()}
        self.ends = dict(found.begins)
        ends = {tp: max(self._available(tp, marks[tp]), at) for tp, at in found.begins.items()}
        # Records that retention removed are not read, so they do not count.
        first = {tp: min(max(at, marks[tp].log_start), ends[tp]) for tp, at in found.begins.items()}
        if waits and self._too_little(sum(ends.values()) - sum(first.values())):
            ends = dict(found.begins)
        elif max_offsets is not None:
            ends = limited(first, ends, max_offsets)  # maybe less than the least size: rounded down
        began = start == self._initial and not self._begun
        end = self._described(known, found, ends, began=began)
        if end is None:
            return start
        self._planned = end, marks
        self.ends = end.ends
        self._waiting_since = time.monotonic()
        return end

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[PlannedRange]:
        """Returns the tasks that read from `start` to `end`: one for each partition with anything
        to read.
        """
        self._begun = True
        if start == end:
            return []
        first = begins(start, end)
        if self._planned is not None and self._planned[0] == end:
            return self._tasks(first, end.ends, self._planned[1])
        # This batch may have been planned before a restart, so its records may be gone by now.
        known = self._trusted(end)
        found = self._settled(known)
        lost = [loss for loss in found.losses if loss.reason is not Reason.RETENTION]
        recreated = {loss.tp for loss in lost if loss.reason is Reason.NEW_TOPIC}
        stops = {
            tp: min(stop, found.begins[tp])
            for tp, stop in known.ends.items()
            if tp in found.marks and tp not in recreated
        }
        self._settle([*lost, *retained(first, stops, found.marks)])
        return self._tasks(first, stops, found.marks)

    def batch_ranges(self) -> list[PlannedRange]:
        """Returns the tasks of a batch query. Raises OptionError if its bounds contradict each
        other.
        """
        return self._unchanged(self._batch_ranges)

    def _batch_ranges(self) -> list[PlannedRange]:
        marks = self._whole()
        start = self._first(marks, "earliest")
        ends = self._last(marks)
        for tp, offset in start.ends.items():
            if ends[tp] < offset:
                first = _name_of(self._options.starting_times, "starting")
                last = _name_of(self._options.ending_times, "ending")
                raise OptionError(
                    f"{tp} would be read from {offset} ({first}) to {ends[tp]} ({last}): the end is"
                    " before the start; give an earlier start or a later end"
                )
            if ends[tp] > marks[tp].high_watermark:
                raise OptionError(
                    f"endingOffsets: {tp} has records up to {marks[tp].high_watermark} only, not to"
                    f" {ends[tp]}"
                )
        found = self._history.compare(self._trusted(start), marks, set())
        lost = [loss for loss in found.losses if loss.reason is not Reason.RETENTION]
        self._settle([*lost, *retained(found.begins, ends, marks)])
        return self._tasks(found.begins, ends, marks)

    def _tasks(self, first: Offsets, stops: Offsets, marks: Marks) -> list[PlannedRange]:
        ranges = [
            PlannedRange(
                tp,
                mark.topic_id,
                first[tp],
                stops[tp],
                mark.epoch,
                log_start=mark.log_start,
                high_watermark=mark.high_watermark,
            )
            for tp, mark in sorted(marks.items())
            if tp in stops and first[tp] < stops[tp]
        ]
        options = self._options
        return split(
            ranges,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )

    def _settle(self, losses: list[Loss]) -> None:
        """Stops the query, or reports each loss once."""
        settle([loss for loss in losses if loss not in self._told], self._options.on_loss)
        self._told |= set(losses)

    def _available(self, tp: TopicPartition, mark: Mark) -> int:
        if self._target is None:
            return mark.high_watermark
        return min(mark.high_watermark, self._target.get((mark.topic_id, tp), 0))

    def _trusted(self, offset: StreamOffset) -> StreamOffset:
        """Returns `offset` with the lineage that an earlier version stored elsewhere. From now on
        leaders of earlier epochs are not trusted.
        """
        if self._believed is not None and self._believed[0] is offset:
            return self._believed[1]
        known = self._files.completed(offset)
        for tp, epoch in known.epochs.items():
            if tp.topic in known.topic_ids:
                self._cluster.remember_epoch(known.topic_ids[tp.topic], tp.partition, epoch)
        self._believed = offset, known
        return known

    def _look(self, read: Iterable[str] = ()) -> tuple[Marks, set[str]]:
        """Returns the query's partitions that exist, and the missing topics among those that it
        names and those that it has read.
        """
        if self._options.pattern is not None:
            leaders, absent = self._cluster.matching(self._options.pattern, read)
            return self._cluster.marks(leaders), absent
        leaders, absent = self._cluster.existing(self._options.topic_names)
        if self._options.assigned:
            leaders = {tp: leaders[tp] for tp in self._options.assigned if tp in leaders}
        return self._cluster.marks(leaders), absent

    def _whole(self) -> Marks:
        """Returns the query's partitions, which must all exist."""
        marks, absent = self._look()
        _must_exist(absent, set(self._options.assigned) - set(marks))
        return marks

    def _unchanged(self, ask: Callable[[], _Answer]) -> _Answer:
        """Returns the answer.

        Asks again if a topic was created or deleted in between. Asks again as often as the options
        allow if no broker answered.
        """
        left = self._options.offset_retries
        for _ in pauses(CHANGING_SECONDS):
            try:
                return ask()
            except TopicChanged as why:
                _logger.info("%s; looking again", why)
            except ClusterUnreachable:
                if left == 0:
                    raise
                left -= 1
                time.sleep(self._options.offset_retry_seconds)
        raise ClusterUnreachable("topics are created and deleted faster than they can be read")

    def _too_little(self, offsets: int) -> bool:
        """True if a batch of so many offsets waits for more. Under availableNow no batch waits."""
        least = self._options.min_offsets_per_trigger
        if least is None or offsets >= least or self._target is not None:
            return False
        return time.monotonic() - self._waiting_since < self._options.trigger_delay_seconds

    def _settled(self, offset: StreamOffset) -> Found:
        """Compares `offset` with the cluster, after a wait for high watermarks that trail behind
        it.
        """
        for _ in pauses(TRAILING_SECONDS):
            found = self._unchanged(lambda: self._compared(offset))
            if not found.behind:
                return found

        def judged() -> Found:
            found = self._compared(offset)
            self._history.judge_behind(found)
            return found

        return self._unchanged(judged)

    def _compared(self, offset: StreamOffset) -> Found:
        read = {tp.topic for tp in offset.ends}
        marks, absent = self._look(read)
        _must_exist(absent - read, set(self._options.assigned) - set(marks) - set(offset.ends))
        if self._target is not None:
            target = self._target
            marks = {
                tp: mark
                for tp, mark in marks.items()
                if tp in offset.ends or (mark.topic_id, tp) in target
            }
        return self._history.compare(offset, marks, absent)

    def _described(
        self, start: StreamOffset, found: Found, ends: Offsets, *, began: bool
    ) -> StreamOffset | None:
        """Returns the end offset with its lineage; None if it equals `start`.

        A partition that has not advanced keeps its epoch, whichever broker leads it now. A
        partition that is gone keeps its offset, and continues there if the same topic comes back.
        """
        known = start.topic_ids
        now = {tp.topic: found.marks[tp].topic_id for tp in ends}
        gone = {
            tp: end
            for tp, end in start.ends.items()
            if tp not in ends and now.get(tp.topic, known.get(tp.topic)) == known.get(tp.topic)
        }
        ids = {tp.topic: known[tp.topic] for tp in gone if tp.topic in known} | now
        epochs = {tp: at for tp, at in start.epochs.items() if tp in ends or tp in gone}
        starts: Offsets = {}
        moved = began
        self._history.note(found.marks)
        for tp, end in ends.items():
            before, at = start.ends.get(tp), found.begins[tp]
            if began or (before is not None and at != before):
                starts[tp] = at
            if before == end == at and known.get(tp.topic, now[tp.topic]) == now[tp.topic]:
                continue
            moved = True
            epochs[tp] = self._history.epoch_of(tp, end, found.marks)
        return StreamOffset(gone | ends, ids, epochs, starts) if moved else None

    def _decide_initial(self) -> StreamOffset:
        marks = self._whole()
        start = self._first(marks, "latest")
        for tp, offset in start.ends.items():
            if offset > marks[tp].high_watermark and tp.topic not in start.topic_ids:
                raise OptionError(
                    f"startingOffsets: {tp} has records up to {marks[tp].high_watermark} only,"
                    f" {offset} lies beyond"
                )
        ids = {tp.topic: mark.topic_id for tp, mark in marks.items()}
        epochs = {tp: mark.epoch for tp, mark in marks.items() if tp.topic not in start.topic_ids}
        return replace(start, topic_ids=ids | start.topic_ids, epochs=epochs | start.epochs)

    def _first(self, marks: Marks, default: str) -> StreamOffset:
        """Returns the start of a new query. Times override offsets."""
        options = self._options
        if options.starting_times is None:
            return self._resolve(options.starting or default, "startingOffsets", marks)
        found = self._at(options.starting_times, "starting", marks)
        none = [tp for tp, offset in found.items() if offset is None]
        if none and options.no_offset is NoOffset.ERROR:
            raise OptionError(
                f"{_name_of(options.starting_times, 'starting')}: {names(none)} has no record at or"
                " after that time; give an earlier one, or"
                " startingOffsetsByTimestampStrategy=latest to start there with the next record"
            )
        return StreamOffset(_or_latest(found, marks))

    def _last(self, marks: Marks) -> Offsets:
        """Returns the end of a batch query."""
        options = self._options
        if options.ending_times is None:
            return self._resolve(options.ending or "latest", "endingOffsets", marks).ends
        return _or_latest(self._at(options.ending_times, "ending", marks), marks)

    def _at(self, times: Times, side: str, marks: Marks) -> dict[TopicPartition, int | None]:
        """Returns the first offset at or after its time; None where there is none."""
        wanted = times if isinstance(times, dict) else dict.fromkeys(marks, times)
        _must_name(_name_of(times, side), wanted, marks)
        leaders = {tp: mark.leader for tp, mark in marks.items()}
        found = self._cluster.offsets_at(wanted, leaders)
        return {tp: None if found[tp] < 0 else found[tp] for tp in sorted(found)}

    def _resolve(self, position: Position, name: str, marks: Marks) -> StreamOffset:
        """Replaces words by numbers; keeps a given lineage."""
        words = {
            EARLIEST: {tp: mark.log_start for tp, mark in marks.items()},
            LATEST: {tp: mark.high_watermark for tp, mark in marks.items()},
        }
        if isinstance(position, str):
            return StreamOffset(words[EARLIEST if position == "earliest" else LATEST])
        _must_name(name, position.ends, marks)
        ends = {tp: words[at][tp] if at in words else at for tp, at in position.ends.items()}
        return replace(position, ends=ends, starts={})


def _must_exist(topics: set[str], partitions: set[TopicPartition]) -> None:
    """Raises UnknownTopic if the query names a topic or partition that is missing and that it has
    never read.
    """
    if topics:
        raise unknown(topics)
    if partitions:
        raise UnknownTopic(f"there is no partition {names(partitions)}; assign names it")


def _must_name(name: str, given: Offsets, marks: Marks) -> None:
    if set(given) != set(marks):
        raise OptionError(
            f"{name} must name every partition that is read, and no other:"
            f" missing {names(set(marks) - set(given)) or 'none'},"
            f" not read {names(set(given) - set(marks)) or 'none'}"
        )


def _name_of(times: Times | None, side: str) -> str:
    if isinstance(times, dict):
        return f"{side}OffsetsByTimestamp"
    return f"{side}Offsets" if times is None else f"{side}Timestamp"


def _or_latest(found: dict[TopicPartition, int | None], marks: Marks) -> Offsets:
    return {tp: marks[tp].high_watermark if at is None else at for tp, at in found.items()}
