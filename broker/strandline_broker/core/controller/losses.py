"""What unclean elections have cost: the loss report (I-53).

It begins with the election, and grows with what replicas say of it: each one that gives up records
for the new leader's history names the range and how far it knew them to be committed, and so does a
leader that has lost such records itself. A record that was committed may have been acknowledged; so
what a report counts is at least what producers were promised, as far as any replica still knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.records import RECOVERED, LossRecord
from strandline_proto.ids import NO_LEADER, BrokerId, LeaderEpoch, TopicId

if TYPE_CHECKING:
    from strandline_broker.core.controller.state import Partition

REPORTS_MAX: Final = 1000
"""Kept; the oldest go first."""


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

    @property
    def acknowledged(self) -> int:
        """How many of the offsets were committed."""
        return max(0, self.committed - self.start) if self.brokers else 0


Reports = tuple[LossReport, ...]
"""Oldest first."""


def with_report(reports: Reports, report: LossReport) -> Reports:
    return (*reports, report)[-REPORTS_MAX:]


def with_election(reports: Reports, topic: str, old: Partition, new: Partition) -> Reports:
    """An unclean election begins a report of what it costs."""
    elected = new.leader != NO_LEADER and new.leader_epoch > old.leader_epoch
    unclean = new.leader_recovery_state != RECOVERED and new.leader not in (*old.isr, *old.elr)
    if not (elected and unclean):
        return reports
    key = (topic, new.topic_id, new.index, new.leader_epoch)
    return with_report(reports, LossReport(*key, leader=new.leader, elected_uncleanly=True))


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
    committed = min(max(loss.committed, loss.start), loss.end)
    if not report.brokers:
        start, end = loss.start, loss.end
    else:
        start, end = min(report.start, loss.start), max(report.end, loss.end)
        committed = max(committed, report.committed)
    brokers = tuple(sorted({*report.brokers, loss.broker_id}))
    return replace(report, start=start, end=end, committed=committed, brokers=brokers)
