"""Which offsets a query reads: where it starts, how far a micro-batch goes, and whether what it
read is still so.

All of it runs on the driver. What Spark does with these answers shapes the rules:

* The initial offset is decided once and kept in a file, because it is asked for again after a
  restart.
* An end offset is never below the start it is asked for: a new leader's high watermark may
  trail for a moment.
* Under availableNow nothing that appeared after the target was taken is read, new partitions
  included.
* Offsets below which records were read stay tied to a topic id and a leader epoch. If the topic was
  created anew, or the leader's log leaves that epoch earlier, records that were read are gone: data
  loss, said once and not read over.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_spark.cluster import Cluster, End, Leaders, pauses
from strandline_spark.errors import DataLoss, OptionError, UnknownTopic
from strandline_spark.offsets import Offsets, TopicPartition, limited, names
from strandline_spark.options import EARLIEST, LATEST
from strandline_spark.positions import Lineage, PositionFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_spark.options import Position, SourceOptions

_logger: Final = logging.getLogger(__name__)

TRAILING_SECONDS: Final = 5.0
"""How long a high watermark below the start is waited for before a trigger is given up as empty."""

_WAYS_OUT: Final = (
    "start a new checkpoint (and table), or set failOnDataLoss=false to go on with what is there"
)


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """One task: the records of [start, stop) of one partition, as of one topic id and at least one
    leader epoch.
    """

    tp: TopicPartition
    topic_id: bytes
    start: int
    stop: int
    leader_epoch: int


class Planner:
    """The driver's view of one query. Holds no connection, so it may be pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.bootstrap)
        self._files = PositionFiles(options.initial_offsets_path)
        self._lineage: Lineage | None = None
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._checked: dict[TopicPartition, tuple[int, int]] = {}
        self.high_watermarks: Offsets | None = None
        """The ends of the logs at the last micro-batch, whatever limits and targets said: for
        progress reports.
        """

    def initial(self) -> Offsets:
        """Where the query starts: the stored answer, or what the options mean now; the same at
        every call.
        """
        if self._initial is None:
            stored = self._files.initial()
            self._initial = self._decide_initial() if stored is None else stored
        return dict(self._initial)

    def take_target(self) -> None:
        """Fixes what "available now" means."""
        self._target = {tp: end.offset for tp, end in self._ends(self._leaders()).items()}

    def latest(self, start: Offsets, max_offsets: int | None) -> Offsets:
        """The end of the micro-batch that starts at `start`, with every partition of `start` that
        still exists.
        """
        leaders = self._leaders()
        self._report_gone(set(start) - set(leaders))
        wanted = (
            set(leaders)
            if self._target is None
            else set(leaders) & (set(start) | set(self._target))
        )
        begin = self._with_new_partitions(start, wanted)
        ends, rewound = self._settled_ends(begin)
        self._check_lineage(begin, ends)
        self.high_watermarks = {tp: mark.offset for tp, mark in ends.items()}
        end = {tp: max(self._up_to_target(tp, ends[tp].offset), begin[tp]) for tp in begin}
        end |= {tp: ends[tp].offset for tp in rewound}
        if max_offsets is not None:
            end = limited({tp: begin[tp] for tp in end}, end, max_offsets)
        self._note(leaders, {tp: End(end[tp], ends[tp].epoch) for tp in end})
        return end

    def _up_to_target(self, tp: TopicPartition, offset: int) -> int:
        return offset if self._target is None else min(offset, self._target.get(tp, 0))

    def batch_bounds(self) -> tuple[Offsets, Offsets]:
        """Start and end of a batch query. Raises OptionError if they contradict each other."""
        leaders = self._leaders()
        start = self._resolve(self._options.starting or "earliest", "startingOffsets", leaders)
        end = self._resolve(self._options.ending or "latest", "endingOffsets", leaders)
        marks = self._ends(leaders)
        for tp, offset in start.items():
            if end[tp] < offset:
                raise OptionError(
                    f"{tp} would be read from {offset} to {end[tp]}: the end is before the start"
                )
            if end[tp] > marks[tp].offset:
                raise OptionError(
                    f"endingOffsets: {tp} has records up to {marks[tp].offset} only, not to "
                    f"{end[tp]}"
                )
        return start, end

    def ranges(self, start: Offsets, end: Offsets) -> list[PlannedRange]:
        """The tasks that read [start, end): one for each partition that has anything in it."""
        leaders = self._leaders()
        self._report_gone(set(end) - set(leaders))
        planned = []
        present = {tp: end[tp] for tp in end if tp in leaders}
        begin = self._with_new_partitions(start, present)
        self._check_lineage(present, {tp: End(end[tp], leaders[tp].epoch) for tp in present})
        for tp in sorted(present):
            first = begin[tp]
            if end[tp] < first:
                self._lost(f"{tp} was planned up to {end[tp]}, which is before its start {first}")
                first = min(self._earliest([tp])[tp], end[tp])
            if end[tp] > first:
                leader = leaders[tp]
                planned.append(PlannedRange(tp, leader.topic_id, first, end[tp], leader.epoch))
        return planned

    def _leaders(self) -> Leaders:
        """The query's partitions. A topic that came again under another id is data loss (or, if
        asked, a warning).
        """
        options = self._options
        lineage = self._known_lineage()
        leaders = self._existing(lineage)
        if options.assigned:
            absent = [tp for tp in options.assigned if tp not in leaders]
            if absent:
                raise UnknownTopic(f"there is no partition {names(absent)}; assign names it")
            leaders = {tp: leaders[tp] for tp in options.assigned}
        for tp, leader in leaders.items():
            known = lineage.topic_ids.get(tp.topic)
            if known is not None and known != leader.topic_id:
                self._lost(
                    f"topic {tp.topic} was deleted and created again; its offsets mean other "
                    "records now"
                )
                lineage.epochs = {t: e for t, e in lineage.epochs.items() if t.topic != tp.topic}
            lineage.topic_ids[tp.topic] = leader.topic_id
        return leaders

    def _existing(self, lineage: Lineage) -> Leaders:
        """The partitions of every topic. One that is gone is an error, and data loss if it was read
        before.
        """
        topics = self._options.topic_names
        try:
            return self._cluster.leaders(topics)
        except UnknownTopic as why:
            if not any(topic in lineage.topic_ids for topic in topics):
                raise
            self._lost(str(why))
        found: Leaders = {}
        for topic in topics:
            with contextlib.suppress(UnknownTopic):
                found |= self._cluster.leaders([topic])
        return found

    def _known_lineage(self) -> Lineage:
        if self._lineage is None:
            self._lineage = self._files.lineage()
            for tp, ends in self._lineage.epochs.items():
                topic_id = self._lineage.topic_ids.get(tp.topic, b"")
                self._cluster.remember_epoch(topic_id, tp.partition, max(ends))
        return self._lineage

    def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, End]:
        return self._cluster.offsets_at(dict.fromkeys(partitions, LATEST))

    def _earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        found = self._cluster.offsets_at(dict.fromkeys(partitions, EARLIEST))
        return {tp: end.offset for tp, end in found.items()}

    def _decide_initial(self) -> Offsets:
        leaders = self._leaders()
        offsets = self._resolve(self._options.starting or "latest", "startingOffsets", leaders)
        ends = self._ends(leaders)
        for tp, offset in offsets.items():
            if offset > ends[tp].offset:
                raise OptionError(
                    f"startingOffsets: {tp} has records up to {ends[tp].offset} only, {offset} "
                    "lies beyond"
                )
        self._note(leaders, {tp: End(offset, ends[tp].epoch) for tp, offset in offsets.items()})
        return self._files.write_initial(offsets)

    def _resolve(self, position: Position, name: str, leaders: Leaders) -> Offsets:
        if position == "earliest":
            return self._earliest(leaders)
        if position == "latest":
            return {tp: end.offset for tp, end in self._ends(leaders).items()}
        assert isinstance(position, dict), f"{name} is {position!r}"
        if set(position) != set(leaders):
            raise OptionError(
                f"{name} must name every partition that is read and no other:"
                f" missing {names(set(leaders) - set(position)) or 'none'},"
                f" not read {names(set(position) - set(leaders)) or 'none'}"
            )
        words = {tp: offset for tp, offset in position.items() if offset < 0}
        meant = self._cluster.offsets_at(words)
        return {tp: meant[tp].offset if tp in meant else position[tp] for tp in sorted(position)}

    def _with_new_partitions(self, start: Offsets, wanted: Iterable[TopicPartition]) -> Offsets:
        """The start of each wanted partition: one that is new to the query begins with its first
        record.
        """
        partitions = set(wanted)
        begin = {tp: offset for tp, offset in start.items() if tp in partitions}
        for tp, offset in self._earliest(partitions - set(start)).items():
            if offset > 0:
                self._lost(f"{tp} is new to the query and begins at {offset}, not at 0")
            begin[tp] = offset
        return begin

    def _settled_ends(
        self, begin: Offsets
    ) -> tuple[dict[TopicPartition, End], set[TopicPartition]]:
        """The high watermarks, after a while of waiting for those that trail behind their start.

        Also the partitions whose log really ends before their start, if that is to be lived with.
        """
        ends: dict[TopicPartition, End] = {}
        behind: list[TopicPartition] = []
        for _ in pauses(TRAILING_SECONDS):
            ends = self._ends(begin)
            behind = [tp for tp in begin if ends[tp].offset < begin[tp]]
            if not behind:
                break
        return ends, self._report_behind(behind, begin, ends)

    def _report_behind(
        self, behind: list[TopicPartition], begin: Offsets, ends: dict[TopicPartition, End]
    ) -> set[TopicPartition]:
        """Data loss only if the log itself, not merely its high watermark, ends before the start on
        a full ISR.
        """
        if not behind:
            return set()
        lost = set()
        leaders = self._leaders()
        logs = self._cluster.epoch_ends({tp: ends[tp].epoch for tp in behind})
        for tp in behind:
            whole = set(leaders[tp].isr) == set(leaders[tp].replicas)
            if 0 <= logs[tp].offset < begin[tp] and whole:
                self._lost(
                    f"{tp} ends at {logs[tp].offset}, before {begin[tp]} up to which it was read"
                )
                lost.add(tp)
            else:
                _logger.warning(
                    "%s: the high watermark %d is below %d, up to which it was read; waiting for "
                    "its replicas",
                    tp,
                    ends[tp].offset,
                    begin[tp],
                )
        return lost

    def _check_lineage(self, offsets: Offsets, ends: dict[TopicPartition, End]) -> None:
        """Asks, once for each leader epoch, whether the leader's log still holds what was read
        (KIP-320).
        """
        lineage = self._known_lineage()
        asked: dict[TopicPartition, int] = {}
        for tp, offset in offsets.items():
            epoch = lineage.epoch_of(tp, offset)
            checked_epoch, checked_offset = self._checked.get(tp, (-1, -1))
            unchecked = ends[tp].epoch > checked_epoch or offset > checked_offset
            if epoch is not None and 0 <= epoch < ends[tp].epoch and offset > 0 and unchecked:
                asked[tp] = epoch
        for tp, found in self._cluster.epoch_ends(asked).items():
            if found.offset < offsets[tp]:
                self._lost(
                    f"{tp} was read up to {offsets[tp]} in leader epoch {asked[tp]}, but the log "
                    "left that epoch at"
                    f" {found.offset}: committed records were truncated"
                )
            self._checked[tp] = (ends[tp].epoch, offsets[tp])

    def _note(self, leaders: Leaders, ends: dict[TopicPartition, End]) -> None:
        """Stores ids and epochs for these ends, before anyone can rely on them."""
        lineage = self._known_lineage()
        news = [lineage.note(tp, epoch=end.epoch, end=end.offset) for tp, end in ends.items()]
        for tp, end in ends.items():
            self._cluster.remember_epoch(leaders[tp].topic_id, tp.partition, end.epoch)
        if any(news):
            self._files.write_lineage(lineage)

    def _report_gone(self, gone: set[TopicPartition]) -> None:
        if gone:
            self._lost(
                f"{names(gone)} is no longer part of the query; records of it may have been missed"
            )

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{what}; {_WAYS_OUT}")
        _logger.warning("data loss: %s", what)
