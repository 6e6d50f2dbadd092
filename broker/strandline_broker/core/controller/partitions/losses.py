"""What unclean elections have cost: the loss report (I-53).

It begins with the election, and says from where on records may be gone: the end of the new leader's
log; its high watermark, if leaders came after the last that it knows, as they may have committed
other records in the place of its last. What stood there may have been lost by all replicas with the
power, and then nobody can say any more how much it was, so there is no end to that range. If the
leader has not said where its log ends, it begins at 0.

It grows with what replicas say: each one that gives up records for the new leader's history names
the range and how far it knew them to be committed, and so does a leader that has lost such records
itself. A record that was committed may have been acknowledged; so what a report counts is at least
what producers were promised, as far as any replica still knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.log.records import RECOVERED, LossRecord
from strandline_proto.ids import NO_LEADER, BrokerId, LeaderEpoch, TopicId

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import PartitionRegistration

REPORTS_MAX: Final = 1000
"""Kept each by itself. Beyond that the oldest of a partition is told in one with its newest, so
that nothing lost is left out: there are more only by the number of partitions.
"""
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class LossReport:
    topic: str
    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    leader: BrokerId
    """Who was elected, or, where a loss came without an unclean election, led."""
    elected_uncleanly: bool
    start: int = -1
    end: int = -1
    """Offsets from `start` on, below `end`, are gone or hold other records; -1: none are known."""
    committed: int = -1
    brokers: tuple[BrokerId, ...] = ()
    """Who has said so."""
    unknown_from: int = UNKNOWN
    """Of the leader's log that was elected uncleanly: from there on more may be lost."""

    @property
    def possibly_from(self) -> int | None:
        """Offsets from here on may have named acknowledged records that are gone; None: of those
        below `end` alone that is true.
        """
        return max(0, self.unknown_from) if self.elected_uncleanly else None

    @property
    def acknowledged(self) -> int:
        """How many of the offsets were committed."""
        return max(0, self.committed - self.start) if self.brokers else 0


Reports = tuple[LossReport, ...]
"""Oldest first."""


def with_report(reports: Reports, report: LossReport) -> Reports:
    if len(reports) >= REPORTS_MAX:
        for at, earlier in enumerate(reports):
            if (earlier.topic_id, earlier.partition) == (report.topic_id, report.partition):
                return (*reports[:at], *reports[at + 1 :], _in_one(earlier, report))
    return (*reports, report)


def without_topic(reports: Reports, topic_id: TopicId) -> Reports:
    """Nobody misses a record of a topic that was deleted."""
    return tuple(report for report in reports if report.topic_id != topic_id)


def _in_one(earlier: LossReport, later: LossReport) -> LossReport:
    """Of the same partition: what either of them calls lost, or possibly lost."""
    told = [r for r in (earlier, later) if r.brokers]
    unknown = [r.unknown_from for r in (earlier, later) if r.elected_uncleanly]
    return replace(
        later,
        elected_uncleanly=earlier.elected_uncleanly or later.elected_uncleanly,
        start=min((r.start for r in told), default=UNKNOWN),
        end=max((r.end for r in told), default=UNKNOWN),
        committed=max((r.committed for r in told), default=UNKNOWN),
        brokers=tuple(sorted({*earlier.brokers, *later.brokers})),
        unknown_from=min(unknown, default=UNKNOWN),
    )


def with_election(
    reports: Reports,
    topic: str,
    old: PartitionRegistration,
    new: PartitionRegistration,
    *,
    log_end: int | None,
) -> Reports:
    """An unclean election begins a report of what it costs; `log_end`: what the leader's log holds
    as it was committed ends there.
    """
    elected = new.leader != NO_LEADER and new.leader_epoch > old.leader_epoch
    unclean = new.leader_recovery_state != RECOVERED and new.leader not in (*old.isr, *old.elr)
    if not (elected and unclean):
        return reports
    key = (topic, new.topic_id, new.index, new.leader_epoch)
    report = LossReport(
        *key,
        leader=new.leader,
        elected_uncleanly=True,
        unknown_from=UNKNOWN if log_end is None else log_end,
    )
    return with_report(reports, report)


def with_loss(reports: Reports, loss: LossRecord, *, topic: str, leader: BrokerId) -> Reports:
    """`loss` belongs to the last unclean election up to its epoch. Without one it is a report of
    its own.
    """
    at = _election_of(reports, loss)
    if at is None:
        key = (topic, loss.topic_id, loss.partition, loss.leader_epoch)
        report = LossReport(*key, leader=leader, elected_uncleanly=False)
        return with_report(reports, _merged(report, loss))
    return (*reports[:at], _merged(reports[at], loss), *reports[at + 1 :])


def knows(reports: Reports, loss: LossRecord) -> bool:
    """Whether it would change nothing."""
    at = _election_of(reports, loss)
    return at is not None and _merged(reports[at], loss) == reports[at]


def _election_of(reports: Reports, loss: LossRecord) -> int | None:
    for at in range(len(reports) - 1, -1, -1):
        report = reports[at]
        same = (report.topic_id, report.partition) == (loss.topic_id, loss.partition)
        fits = report.elected_uncleanly or report.leader_epoch == loss.leader_epoch
        if same and fits and report.leader_epoch <= loss.leader_epoch:
            return at
    return None


def _merged(report: LossReport, loss: LossRecord) -> LossReport:
    its_own = (loss.broker_id, loss.leader_epoch) == (report.leader, report.leader_epoch)
    if its_own and report.unknown_from == UNKNOWN:
        report = replace(report, unknown_from=loss.start)
    if loss.start >= loss.end:
        return report
    committed = min(max(loss.committed, loss.start), loss.end)
    if not report.brokers:
        start, end = loss.start, loss.end
    else:
        start, end = min(report.start, loss.start), max(report.end, loss.end)
        committed = max(committed, report.committed)
    brokers = tuple(sorted({*report.brokers, loss.broker_id}))
    return replace(report, start=start, end=end, committed=committed, brokers=brokers)
