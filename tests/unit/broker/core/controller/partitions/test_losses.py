"""The loss report: what unclean elections have cost, as replicas tell it (I-53)."""

from dataclasses import replace

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.log.records import LossRecord
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.controller.partitions.loss_reports import decide_losses
from strandline_broker.core.controller.partitions.losses import (
    REPORTS_MAX,
    LossReport,
    with_report,
    without_topic,
)
from strandline_broker.core.controller.partitions.recovery import decide_recoveries
from strandline_broker.core.push_answer import UNKNOWN as UNKNOWN_EPOCH
from strandline_broker.core.push_answer import LogEnd
from strandline_broker.hosts.controller.settings import Identity
from strandline_broker.rpc.cluster.push_codec import PushTranslator, envelope_from_wire
from strandline_proto.ids import BrokerId, LeaderEpoch, MetadataOffset, TopicId
from support.controller_cluster import B1, B2, B3, CLUSTER, STORE, Cluster


class Recovered:
    """Broker 2 leads by balanced recovery; 1 and 3 have more than it."""

    def __init__(self, *, tell: bool = True, behind: int = 0) -> None:
        self.cluster = Cluster([B1, B2, B3])
        self.topic: TopicId = self.cluster.topic("t", (B1, B2, B3))
        for broker in (B1, B2, B3):
            self.cluster.fence(broker)
            self.cluster.all_apply()
        for broker in (B2, B3):
            self.cluster.up(broker)
        ends, partition = LogEnds(), self.cluster.partition(self.topic)
        if not tell:
            self.cluster.alter("", {"unclean.leader.election.enable": "true"}, topic="t")
        for broker in (B2, B3) if tell else ():
            ends.on_told(
                self.cluster.state.brokers[broker],
                partition,
                leader_epoch=partition.leader_epoch,
                end=LogEnd(partition.led_epoch - behind, 5, 3),
            )
        self.cluster.commit(decide_recoveries(self.cluster.state, ends))
        self.epoch = self.cluster.partition(self.topic).leader_epoch

    def tell(
        self, broker: BrokerId, start: int, end: int, committed: int, *, later: int = 0
    ) -> int:
        """A heartbeat with this loss; how much of it is news."""
        loss = LossRecord(
            broker_id=broker,
            topic_id=self.topic,
            partition=0,
            leader_epoch=LeaderEpoch(self.epoch + later),
            start=start,
            end=end,
            committed=committed,
        )
        heartbeat = Heartbeat(
            broker_id=broker,
            broker_epoch=self.cluster.state.brokers[broker].epoch,
            current_metadata_offset=MetadataOffset(0),
            want_fence=False,
            want_shut_down=False,
            losses=(loss,),
        )
        return len(self.cluster.commit(decide_losses(self.cluster.state, heartbeat)))

    def report(self) -> LossReport:
        (report,) = self.cluster.state.losses
        assert self.cluster.replayed().losses == self.cluster.state.losses
        return report


def possibly_from(*ends: LogEnd, answered: int | None = 0) -> int | None:
    """What is reported once brokers 1, 2 and 3, which were in sync and have lost their power, are
    back with these logs. Before, the controller took each for the leader: of epochs 0, 1 and 2. The
    leaders up to epoch `answered` have said that they lead; None: to an earlier controller.
    """
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    applied, told = Applied(), LogEnds()
    for broker in cluster.state.brokers.values():
        applied.on_registered(broker.broker_id, broker.epoch)
    if answered is None:
        told.led.on_found(cluster.partition(topic))
    else:
        told.led.on_created(cluster.partition(topic))
    for epoch, broker_id in enumerate((B1, B2, B3)):
        assert cluster.partition(topic).leader == broker_id
        if answered is not None and epoch <= answered:
            who = (broker_id, cluster.state.brokers[broker_id].epoch)
            offset = cluster.state.last_offset
            applied.on_answered(*who, offset, failed=frozenset(), full=True)
        cluster.fence(broker_id)
        told.led.on_leader(cluster.partition(topic), applied)
    for broker_id in (B1, B2, B3):
        cluster.up(broker_id)
    partition = cluster.partition(topic)
    assert (partition.led_epoch, partition.last_known_elr) == (2, (B1, B2, B3))
    for broker_id, end in zip((B1, B2, B3), ends, strict=True):
        told.on_told(
            cluster.state.brokers[broker_id],
            partition,
            leader_epoch=partition.leader_epoch,
            end=end,
        )
    cluster.commit(decide_recoveries(cluster.state, told))
    (report,) = cluster.state.losses
    return report.possibly_from


def log(last: int, offset: int, known: int | None = None, parts_at: int | None = None) -> LogEnd:
    """Of a disk whose checkpoint says that offsets below 30 were committed."""
    known_epoch = last if known is None else known
    parts = offset if parts_at is None else parts_at
    return LogEnd(last, offset, min(30, offset), known_epoch=known_epoch, parts_at=parts)


def test_what_the_longest_log_holds_is_not_lost_if_no_disk_knows_a_later_epoch() -> None:
    """I-53: none of the leaders of epochs 1 and 2 has lived to lead."""
    assert possibly_from(log(0, 60), log(0, 100), log(0, 40)) == 100
    assert possibly_from(log(1, 60), log(0, 100), log(1, 90, known=1)) == 90
    assert possibly_from(log(0, 0), log(0, 0), log(0, 5)) == 5


def test_a_report_begins_where_a_disk_knows_that_a_later_leader_began() -> None:
    assert possibly_from(log(0, 60, 1, 80), log(0, 100), log(0, 40)) == 80
    assert possibly_from(log(0, 60, 1, 80), log(0, 100), log(0, 40, 2, 70)) == 70
    assert possibly_from(log(0, 60), log(0, 100, 2, 110), log(0, 40)) == 100
    assert possibly_from(log(0, 60, 1, 120), log(0, 100), log(0, 40)) == 100


def test_a_report_begins_at_the_high_watermark_if_disks_do_not_tell_enough() -> None:
    unknown = LogEnd(0, 60, 30, known_epoch=UNKNOWN_EPOCH)
    assert possibly_from(unknown, log(0, 100), log(0, 40)) == 30
    assert possibly_from(LogEnd(0, 60, 30), log(0, 100), log(0, 40)) == 30, "of an older build"
    later = log(-1, 0, 1, 10)
    assert possibly_from(later, log(0, 100), log(0, 40)) == 30, "an epoch between may be gone too"


def test_disks_that_do_not_know_a_leader_that_has_answered_are_no_witnesses() -> None:
    """An older copy of a directory says nothing of what was committed since (P-71)."""
    logs = (log(0, 60), log(0, 100), log(0, 40))
    assert possibly_from(*logs, answered=0) == 100
    assert possibly_from(*logs, answered=1) == 30
    assert possibly_from(log(0, 60, 1, 80), *logs[1:], answered=1) == 80
    assert possibly_from(*logs, answered=None) == 30, "nobody knows who has led"


def test_a_log_that_knows_the_last_leader_needs_no_other_witness() -> None:
    assert possibly_from(LogEnd(2, 100, 30), LogEnd(0, 120, 30), LogEnd(0, 40, 30)) == 100


def test_a_report_begins_with_the_election() -> None:
    report = Recovered().report()
    assert (report.topic, report.leader, report.elected_uncleanly) == ("t", B2, True)
    assert (report.start, report.end, report.acknowledged, report.brokers) == (-1, -1, 0, ())
    assert report.possibly_from == 5, "what was behind its log may be lost, and nobody can tell"


def test_behind_later_leaders_what_is_above_the_high_watermark_may_be_another_history() -> None:
    assert Recovered(behind=1).report().possibly_from == 3


def test_a_leader_that_has_not_said_where_its_log_ends_says_so_when_it_leads() -> None:
    """Until then everything may be lost."""
    at = Recovered(tell=False)
    assert at.report().possibly_from == 0
    assert at.tell(B3, 4, 4, 4) == 0, "another one's log says nothing of it"
    assert at.tell(B2, 7, 7, 7) == 1
    report = at.report()
    assert (report.possibly_from, report.start, report.brokers) == (7, -1, ())
    assert at.tell(B2, 7, 7, 7) == 0
    assert at.tell(B2, 6, 6, 6, later=1) == 0, "that was another election"
    assert at.tell(B2, 7, 9, 9) == 1
    report = at.report()
    assert (report.possibly_from, report.start, report.end, report.brokers) == (7, 7, 9, (B2,))


def test_the_epoch_of_the_last_unclean_election_is_remembered_for_who_comes_back_later() -> None:
    at = Recovered()
    before = at.cluster.partition(at.topic)
    assert (before.unclean_epoch, before.leader_epoch) == (at.epoch, at.epoch)
    at.cluster.fence(B2)
    assert at.cluster.partition(at.topic).led_epoch == at.epoch
    at.cluster.up(B2)
    after = at.cluster.partition(at.topic)
    assert after.leader_epoch > at.epoch
    assert after.unclean_epoch == at.epoch
    assert at.cluster.replayed().partition(at.topic, 0) == after
    translate = PushTranslator(Identity(BrokerId(100), CLUSTER, STORE))
    broker = at.cluster.state.brokers[B3]
    pushed = [envelope_from_wire(translate(e, broker)) for e in at.cluster.envelopes]
    epochs = [state.unclean_epoch for envelope in pushed for state in envelope.leader_and_isr]
    assert (epochs[0], epochs[-1]) == (-1, at.epoch)


def test_replicas_tell_what_they_give_up_and_how_much_of_it_was_committed() -> None:
    at = Recovered()
    assert at.tell(B3, 5, 9, 7) == 1
    report = at.report()
    assert (report.start, report.end, report.acknowledged, report.brokers) == (5, 9, 2, (B3,))
    assert at.tell(B3, 5, 9, 7) == 0, "a heartbeat that is sent again is no news"
    assert at.tell(B1, 5, 8, 8, later=2) == 1, "later, and of the same election"
    report = at.report()
    assert (report.start, report.end, report.acknowledged) == (5, 9, 3)
    assert report.brokers == (B1, B3)


def test_a_replica_that_gives_up_only_what_it_did_not_know_committed_counts_nothing() -> None:
    at = Recovered()
    at.tell(B3, 5, 9, 3)
    assert at.report().acknowledged == 0


def test_a_loss_without_an_unclean_election_is_a_report_of_its_own() -> None:
    cluster = Cluster([B1, B2])
    at = Recovered.__new__(Recovered)
    at.cluster, at.topic = cluster, cluster.topic("t", (B1, B2))
    at.epoch = cluster.partition(at.topic).leader_epoch
    at.tell(B2, 1, 4, 3)
    report = at.report()
    assert (report.elected_uncleanly, report.leader, report.acknowledged) == (False, B1, 2)
    assert report.possibly_from is None, "all that it has cut is known"


def test_a_loss_of_a_topic_that_is_gone_is_no_news() -> None:
    at = Recovered()
    at.topic = TopicId(bytes(16))
    assert at.tell(B1, 1, 2, 2) == 0


def test_beyond_a_number_the_oldest_report_of_a_partition_is_told_in_one_with_its_newest() -> None:
    """What any of them calls lost, or possibly lost, none of those that are kept leaves out."""
    reports: tuple[LossReport, ...] = ()
    for epoch in range(REPORTS_MAX + 5):
        told = (53, 63, 58, (B2,)) if epoch == 3 else ()
        report = LossReport("t", TopicId(bytes(16)), epoch % 7, LeaderEpoch(epoch), B1, True, *told)
        reports = with_report(reports, replace(report, unknown_from=10 + epoch))
    assert len(reports) == REPORTS_MAX
    assert [r.leader_epoch for r in reports[:3]] == [4, 5, 7], "of partitions 0 to 3 and 6"
    for index in range(7):
        assert min(r.possibly_from or 0 for r in reports if r.partition == index) == 10 + index
    newest = reports[-1]
    assert (newest.partition, newest.leader_epoch) == (3, REPORTS_MAX + 4)
    assert (newest.start, newest.end, newest.acknowledged, newest.brokers) == (53, 63, 5, (B2,))


def test_the_only_report_of_a_partition_goes_with_its_topic_alone() -> None:
    reports: tuple[LossReport, ...] = ()
    for index in range(REPORTS_MAX + 5):
        report = LossReport("t", TopicId(bytes(16)), index, LeaderEpoch(1), B1, True)
        reports = with_report(reports, report)
    assert len(reports) == REPORTS_MAX + 5
    assert without_topic(reports, TopicId(bytes(16))) == ()
    assert without_topic(reports, TopicId(b"o" * 16)) == reports
