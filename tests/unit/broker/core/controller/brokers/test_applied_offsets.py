"""How far each broker has applied the log, and which leader does not know that it leads (I-94)."""

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_proto.ids import BrokerEpoch, MetadataOffset
from support.controller_cluster import B1, B2, B3, Cluster

E1, E2 = BrokerEpoch(1), BrokerEpoch(9)


def at(offset: int) -> MetadataOffset:
    return MetadataOffset(offset)


def test_only_the_registered_incarnation_reports() -> None:
    applied = Applied()
    applied.on_registered(B1, E2)
    assert not applied.on_applied(B1, E1, at(50))
    assert applied.on_applied(B1, E2, at(10))
    assert not applied.on_applied(B1, E2, at(10)), "no news"
    assert not applied.on_applied(B1, E2, at(9)), "an older report"
    assert applied.offsets == {B1: 10}
    applied.on_registered(B1, BrokerEpoch(20))
    assert applied.offsets == {B1: -1}


def test_live_brokers_that_have_not_said_how_far_they_are_count_as_behind() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.fence(B2)
    applied = Applied()
    for broker_id in (B1, B2, B3):
        applied.on_registered(broker_id, cluster.state.brokers[broker_id].epoch)
    applied.on_applied(B1, cluster.state.brokers[B1].epoch, at(10))
    assert applied.behind(cluster.state, at(10)) == [B3]
    assert applied.behind(cluster.state, at(11)) == [B1, B3]
    assert Applied().behind(cluster.state, at(0)) == [B1, B3]


def test_a_leader_that_has_not_applied_its_election_within_the_limit_is_overdue() -> None:
    applied = Applied()
    applied.on_registered(B1, E1)
    applied.on_elected(B1, at(10), 0)
    applied.on_applied(B1, E1, at(9))
    assert applied.overdue(100, 100) is None
    assert applied.overdue(101, 100) == (B1, E1)
    applied.on_applied(B1, E1, at(10))
    assert applied.overdue(101, 100) is None


def test_each_election_has_its_own_time() -> None:
    applied = Applied()
    applied.on_registered(B1, E1)
    applied.on_elected(B1, at(10), 0)
    applied.on_elected(B1, at(20), 90)
    applied.on_applied(B1, E1, at(10))
    assert applied.overdue(150, 100) is None
    assert applied.overdue(191, 100) == (B1, E1)


def test_several_elections_of_one_batch_are_one() -> None:
    applied = Applied()
    applied.on_registered(B1, E1)
    applied.on_elected(B1, at(10), 0)
    applied.on_elected(B1, at(10), 50)
    applied.on_applied(B1, E1, at(10))
    assert applied.overdue(1000, 100) is None


def test_a_fenced_broker_leads_nothing_and_owes_nothing() -> None:
    applied = Applied()
    applied.on_registered(B1, E1)
    applied.on_elected(B1, at(10), 0)
    applied.on_fenced(B1)
    assert applied.overdue(1000, 100) is None


def test_a_new_incarnation_owes_nothing_for_the_old_one() -> None:
    applied = Applied()
    applied.on_registered(B1, E1)
    applied.on_elected(B1, at(10), 0)
    applied.on_registered(B1, E2)
    assert applied.overdue(1000, 100) is None


def test_the_longest_overdue_comes_first_and_own_stalls_do_not_count() -> None:
    applied = Applied()
    for broker_id, since_ms in ((B1, 5), (B2, 0)):
        applied.on_registered(broker_id, E1)
        applied.on_elected(broker_id, at(10), since_ms)
    assert applied.overdue(1000, 100) == (B2, E1)
    applied.on_own_stall(950, 1000)
    assert applied.overdue(1000, 100) is None
    assert applied.overdue(1051, 100) == (B2, E1)


def test_what_happened_after_an_own_stall_is_not_put_off() -> None:
    """P-62: what was decided and heard before the sweep that sees the stall waits from then on."""
    applied = Applied()
    for broker_id in (B1, B2):
        applied.on_registered(broker_id, E1)
        applied.on_elected(broker_id, at(10), 990)
    applied.on_progress(B2, E1, 1, 995)
    applied.on_own_stall(950, 1000)
    assert applied.overdue(1100, 100) is None
    assert applied.is_overdue(B1, 1101, 100)
    assert applied.is_overdue(B2, 1101, 100)


def test_a_leader_that_goes_on_with_other_partitions_is_not_overdue() -> None:
    """I-94: a push of thousands takes longer than a session."""
    applied = Applied()
    applied.on_registered(B1, E1)
    applied.on_elected(B1, at(10), 0)
    assert applied.progressed_ms(B1) is None
    for now_ms in (90, 180, 270):
        applied.on_progress(B1, E1, now_ms, now_ms)
        assert applied.overdue(now_ms + 100, 100) is None
    applied.on_progress(B1, E1, 270, 360)
    assert applied.progressed_ms(B1) == 270, "no partition more is no progress"
    assert applied.overdue(371, 100) == (B1, E1)
    applied.on_own_stall(50, 371)
    assert applied.overdue(371, 100) is None
    assert applied.overdue(421, 100) == (B1, E1)


def test_progress_is_that_of_the_registered_incarnation() -> None:
    applied = Applied()
    applied.on_registered(B1, E1)
    applied.on_progress(B1, E1, 5, 10)
    applied.on_registered(B1, E2)
    assert applied.progressed_ms(B1) is None
    applied.on_progress(B1, E1, 6, 20)
    assert applied.progressed_ms(B1) is None
    applied.on_progress(B1, E2, 1, 30)
    assert applied.progressed_ms(B1) == 30
