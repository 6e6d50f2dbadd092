"""The cost of unclean elections: the loss report (I-53).

A report begins with the election, and names the offset from which records may be gone. That is the
end of the new leader's log. If leaders came after the last one that it knows, it is the log's high
watermark: they may have committed other records in place of its last ones. All replicas may have
lost later records with the power, so this range has no end. If the leader has not reported its log
end, the range begins at 0.

A report grows with the replicas' reports. A replica that gives up records for the new leader's
history names the range, and the part that it knew to be committed. A leader that has lost such
records itself does the same. A committed record may have been acknowledged. The report therefore
counts at least all records that were promised to producers, as far as any replica still knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.log.records import RECOVERED, LossRecord
from strandline_proto.ids import NO_LEADER, BrokerId, LeaderEpoch, TopicId

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import PartitionRegistration

REPORTS_MAX: Final = 1000
"""Number of separate reports that are kept. Beyond it, the oldest report of a partition is merged
with its newest, so that no loss is omitted. The number of partitions bounds the excess.
"""
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class LossReport:
    topic: str
    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    leader: BrokerId
    """The elected leader or, for a loss without an unclean election, the leader of that time."""
    elected_uncleanly: bool
    start: int = -1
    end: int = -1
    """End of the lost range: offsets from `start` to below `end` are gone or hold other records;
    -1: none are known.
    """
    committed: int = -1
    brokers: tuple[BrokerId, ...] = ()
    """Brokers that have reported the loss."""
    unknown_from: int = UNKNOWN
    """Offset in the uncleanly elected leader's log from which more may be lost."""

    @property
    def possibly_from(self) -> int | None:
        """Offset from which acknowledged records may be gone; None: only offsets below `end` are
        concerned.
        """
        return max(0, self.unknown_from) if self.elected_uncleanly else None

    @property
    def acknowledged(self) -> int:
        """Number of the offsets that were committed."""
        return max(0, self.committed - self.start) if self.brokers else 0


Reports = tuple[LossReport, ...]
"""Reports, oldest first."""


def with_report(reports: Reports, report: LossReport) -> Reports:
    if len(reports) >= REPORTS_MAX:
        for at, earlier in enumerate(reports):
            if (earlier.topic_id, earlier.partition) == (report.topic_id, report.partition):
                return (*reports[:at], *reports[at + 1 :], _in_one(earlier, report))
    return (*reports, report)


def without_topic(reports: Reports, topic_id: TopicId) -> Reports:
    """The reports without those of a deleted topic, whose records are not missed."""
    return tuple(report for report in reports if report.topic_id != topic_id)


def _in_one(earlier: LossReport, later: LossReport) -> LossReport:
    """Two reports of the same partition in one: everything that either calls lost, or possibly
    lost.
    """
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
    """The reports with a new one for an unclean election. `log_end` is the end of the committed
    part of the leader's log.
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
    """The reports with `loss`, which is added to the last unclean election up to its epoch. Without
    one it gets its own report.
    """
    at = _election_of(reports, loss)
    if at is None:
        key = (topic, loss.topic_id, loss.partition, loss.leader_epoch)
        report = LossReport(*key, leader=leader, elected_uncleanly=False)
        return with_report(reports, _merged(report, loss))
    return (*reports[:at], _merged(reports[at], loss), *reports[at + 1 :])


def knows(reports: Reports, loss: LossRecord) -> bool:
    """True if the loss would change nothing."""
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
