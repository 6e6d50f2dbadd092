"""The loss report: what unclean elections have cost, as replicas tell it (I-53)."""

from strandline_broker.core.controller.heartbeat import Heartbeat
from strandline_broker.core.controller.log_ends import LogEnd, LogEnds
from strandline_broker.core.controller.loss_reports import decide_losses
from strandline_broker.core.controller.losses import REPORTS_MAX, LossReport, with_report
from strandline_broker.core.controller.records import LossRecord
from strandline_broker.core.controller.recovery import decide_recoveries
from strandline_broker.hosts.controller.settings import Identity
from strandline_broker.rpc.controller.push import PushTranslator
from strandline_broker.rpc.push import envelope_from_wire
from strandline_proto.ids import BrokerId, LeaderEpoch, MetadataOffset, TopicId
from support.controller_cluster import B1, B2, B3, CLUSTER, STORE, Cluster


class Recovered:
    """Broker 2 leads by balanced recovery; 1 and 3 have more than it."""

    def __init__(self) -> None:
        self.cluster = Cluster([B1, B2, B3])
        self.topic: TopicId = self.cluster.topic("t", (B1, B2, B3))
        for broker in (B1, B2, B3):
            self.cluster.fence(broker)
            self.cluster.all_apply()
        for broker in (B2, B3):
            self.cluster.up(broker)
        ends, partition = LogEnds(), self.cluster.partition(self.topic)
        for broker in (B2, B3):
            ends.on_told(
                self.cluster.state.brokers[broker],
                partition,
                leader_epoch=partition.leader_epoch,
                end=LogEnd(0, 5),
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


def test_a_report_begins_with_the_election() -> None:
    report = Recovered().report()
    assert (report.topic, report.leader, report.elected_uncleanly) == ("t", B2, True)
    assert (report.start, report.end, report.acknowledged, report.brokers) == (-1, -1, 0, ())


def test_the_epoch_of_the_last_unclean_election_is_remembered_for_who_comes_back_later() -> None:
    at = Recovered()
    before = at.cluster.partition(at.topic)
    assert (before.unclean_epoch, before.leader_epoch) == (at.epoch, at.epoch)
    at.cluster.fence(B2)
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


def test_a_loss_of_a_topic_that_is_gone_is_no_news() -> None:
    at = Recovered()
    at.topic = TopicId(bytes(16))
    assert at.tell(B1, 1, 2, 2) == 0


def test_the_oldest_reports_go_first() -> None:
    reports: tuple[LossReport, ...] = ()
    for epoch in range(REPORTS_MAX + 5):
        report = LossReport("t", TopicId(bytes(16)), 0, LeaderEpoch(epoch), B1, True)
        reports = with_report(reports, report)
    assert len(reports) == REPORTS_MAX
    assert reports[0].leader_epoch == 5
