"""The check that the cluster still holds the records that a query's offsets mean, and where reading
continues if not.

Each comparison of an offset depends on the one before, so the order is fixed:

* The topic is the same (its id).
* The leader's log does not leave the offset's leader epoch below the offset. The leader is asked
  once after each election (KIP-320).
* The log still begins at or below the offset.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_proto.ids import topic_id_text
from strandline_spark.source.losses import Loss, Reason
from strandline_spark.source.positions import Lineage

if TYPE_CHECKING:
    from strandline_spark.cluster.cluster import Cluster, Leaders, Marks
    from strandline_spark.cluster.offsets import Offsets, StreamOffset, TopicPartition

_logger: Final = logging.getLogger(__name__)

_LEFT: Final = (
    "it is no longer part of the query: the partition is gone, or subscribe or assign has changed"
)


@dataclass(slots=True)
class Found:
    """The state of the cluster for one offset."""

    marks: Marks
    begins: Offsets
    """The offset where each partition continues: its own, or the first unread record if the own one
    means nothing any more.
    """
    losses: list[Loss]
    behind: list[TopicPartition]
    """Partitions whose high watermark is below the offset where they continue."""


class History:
    """The facts that one process has learnt about the leaders of a query's partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen = Lineage()
        """High watermarks by leader epoch. They bound an offset's epoch more closely than the last
        epoch does.
        """
        self._checked: dict[TopicPartition, tuple[int, int]] = {}

    def compare(self, offset: StreamOffset, marks: Marks, absent: set[str]) -> Found:
        """Compares each offset with the cluster. Partitions that `offset` lacks start at their
        first record.
        """
        losses: list[Loss] = []
        begins = dict.fromkeys(marks, 0)
        for tp, end in offset.ends.items():
            was = offset.topic_ids.get(tp.topic)
            if tp not in marks:
                why = f"topic {tp.topic} does not exist" if tp.topic in absent else _LEFT
                losses.append(Loss(tp, end, None, Reason.DELETION, why))
            elif was is not None and was != marks[tp].topic_id:
                now = topic_id_text(marks[tp].topic_id)
                what = f"deleted and created again: its id was {topic_id_text(was)}, now {now}"
                losses.append(Loss(tp, end, None, Reason.NEW_TOPIC, what))
                self._forget(tp)
            else:
                begins[tp] = end
        for tp, end in self._truncations(offset, begins, marks).items():
            what = (
                f"the log left leader epoch {offset.epochs[tp]} at {end}: committed records that"
                " were read have been truncated"
            )
            losses.append(Loss(tp, end, begins[tp], Reason.TRUNCATION, what))
            begins[tp] = end
            self._forget(tp)
        behind = [tp for tp, at in begins.items() if marks[tp].high_watermark < at]
        losses += retained(begins, {tp: mark.log_start for tp, mark in marks.items()}, marks)
        return Found(marks, begins, losses, behind)

    def judge_behind(self, found: Found) -> None:
        """Judges the partitions whose high watermark stays below the offset.

        That is data loss only if the log itself ends there on a full ISR.
        """
        marks = found.marks
        asked = {tp: marks[tp].epoch for tp in found.behind}
        logs = self._cluster.epoch_ends(asked, _leaders(marks))
        for tp in found.behind:
            leader, at = marks[tp].leader, found.begins[tp]
            if logs[tp] < at and set(leader.isr) == set(leader.replicas):
                what = f"the log ends at {logs[tp]}, before the query's offset {at}"
                found.losses.append(Loss(tp, logs[tp], at, Reason.TRUNCATION, what))
                found.begins[tp] = logs[tp]
                self._forget(tp)
            else:
                _logger.warning(
                    "%s: the high watermark %d is below the query's offset %d; waiting for its"
                    " replicas",
                    tp,
                    marks[tp].high_watermark,
                    at,
                )

    def note(self, marks: Marks) -> None:
        """Stores the leaders' answers, which bound the epochs of ranges planned by them."""
        for tp, mark in marks.items():
            self._seen.note(tp, epoch=mark.epoch, end=mark.high_watermark)

    def epoch_of(self, tp: TopicPartition, offset: int, marks: Marks) -> int:
        """Returns the smallest known epoch that is not below the epoch of any record below
        `offset`.
        """
        least = self._seen.epoch_of(tp, offset)
        return marks[tp].epoch if least is None else least

    def _forget(self, tp: TopicPartition) -> None:
        self._seen.epochs.pop(tp, None)
        self._checked.pop(tp, None)

    def _truncations(self, offset: StreamOffset, begins: Offsets, marks: Marks) -> Offsets:
        """Returns the offset where the histories part, for each partition whose leader's log lacks
        records that were read.
        """
        asked = {
            tp: epoch
            for tp, epoch in offset.epochs.items()
            if begins.get(tp, 0) == offset.ends.get(tp, 0) > 0
            and epoch < marks[tp].epoch
            and self._checked.get(tp) != (marks[tp].epoch, begins[tp])
        }
        ends = self._cluster.epoch_ends(asked, _leaders(marks))
        for tp, end in ends.items():
            if end >= begins[tp]:
                self._checked[tp] = (marks[tp].epoch, begins[tp])
        return {tp: end for tp, end in ends.items() if end < begins[tp]}


def retained(first: Offsets, stops: Offsets, marks: Marks) -> list[Loss]:
    """Returns the losses by retention in [first, stop) of each partition."""
    out = []
    for tp, stop in stops.items():
        at, log_start = first[tp], marks[tp].log_start
        if at < min(log_start, stop):
            what = f"the log starts at {log_start} now"
            out.append(Loss(tp, at, min(log_start, stop), Reason.RETENTION, what))
    return out


def _leaders(marks: Marks) -> Leaders:
    return {tp: mark.leader for tp, mark in marks.items()}
