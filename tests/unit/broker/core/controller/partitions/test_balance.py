"""Leaders that come back by themselves: which, how many, and when."""

import pytest

from strandline_broker.core.controller.log.records import (
    BrokerRegistrationChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    decode,
)
from strandline_broker.core.controller.partitions.balance import Balanced, Quiet, decide_balance
from strandline_broker.core.controller.partitions.leadership import (
    ElectionType,
    ElectionWish,
    decide_elect_leaders,
)
from strandline_proto.ids import BrokerId, MetadataOffset, ProducerId
from support.controller_cluster import B1, B2, B3, Cluster

ALL_KNOW = dict.fromkeys([B1, B2, B3], MetadataOffset(1 << 40))


def balance(
    cluster: Cluster, *, percentage: int = 10, limit: int = 100, applied: object = ALL_KNOW
) -> Balanced:
    assert isinstance(applied, dict)
    return cluster.commit(
        decide_balance(cluster.state, applied, percentage=percentage, limit=limit)
    )


def move(cluster: Cluster, *moves: tuple[str, int, BrokerId]) -> None:
    wishes = [ElectionWish(*wish) for wish in moves]
    cluster.commit(decide_elect_leaders(cluster.state, ElectionType.DESIGNATED, wishes))


def leaders(cluster: Cluster) -> list[BrokerId]:
    return [partition.leader for partition in cluster.state.partitions()]


def test_partitions_come_back_to_their_preferred_leaders() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2), (B2, B3), (B3, B1))
    assert balance(cluster) == Balanced(0, left=0)
    move(cluster, ("t", 0, B2), ("t", 2, B1))
    assert balance(cluster) == Balanced(2, left=0)
    assert leaders(cluster) == [B1, B2, B3]
    assert balance(cluster) == Balanced(0, left=0)


def test_not_more_than_the_limit_move_at_once_and_the_rest_is_counted() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", *[(B1, B2)] * 5)
    move(cluster, *[("t", index, B2) for index in range(5)])
    assert balance(cluster, limit=2) == Balanced(2, left=3)
    assert leaders(cluster).count(B1) == 2
    assert balance(cluster, limit=3) == Balanced(3, left=0)


@pytest.mark.parametrize(("percentage", "moved"), [(0, 1), (19, 1), (20, 0), (100, 0)])
def test_a_broker_that_lacks_no_more_than_the_percentage_waits(percentage: int, moved: int) -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", *[(B1, B2)] * 5)
    move(cluster, ("t", 3, B2))
    assert balance(cluster, percentage=percentage).moved == moved


def test_the_percentage_is_of_each_broker_by_itself() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", *[(B1, B2)] * 9, (B2, B1))
    move(cluster, ("t", 0, B2), ("t", 9, B1))
    assert balance(cluster, percentage=12) == Balanced(1, left=0)
    assert leaders(cluster)[0] == B2
    assert leaders(cluster)[9] == B2


def test_who_cannot_lead_is_left_alone() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.fence(B1)
    assert balance(cluster) == Balanced(0, left=0)
    cluster.unfence(B1)
    assert B1 not in cluster.partition(topic).isr
    assert balance(cluster) == Balanced(0, left=0)
    assert cluster.partition(topic).leader == B2


def test_a_broker_that_has_not_applied_the_partition_is_not_given_it() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    move(cluster, ("t", 0, B2))
    changed_at = cluster.partition(topic).changed_at
    for known in ({}, {B1: MetadataOffset(changed_at - 1), B2: changed_at}):
        assert balance(cluster, applied=known) == Balanced(0, left=0)
    assert balance(cluster, applied={B1: changed_at}) == Balanced(1, left=0)


def test_the_cluster_is_quiet_a_session_after_the_last_broker_came_or_went() -> None:
    cluster = Cluster([B1])
    registered = next(r for r in map(decode, cluster.log) if isinstance(r, RegisterBrokerRecord))
    epoch = cluster.state.brokers[B1].epoch
    came = BrokerRegistrationChangeRecord(broker_id=B1, broker_epoch=epoch, fenced=False)
    fenced = BrokerRegistrationChangeRecord(broker_id=B1, broker_epoch=epoch, fenced=True)
    stops = BrokerRegistrationChangeRecord(
        broker_id=B1, broker_epoch=epoch, in_controlled_shutdown=True
    )
    quiet = Quiet(1000, 0)
    assert quiet.missing_ms(400) == 600
    assert quiet.missing_ms(1000) == quiet.missing_ms(5000) == 0
    for at_ms, record in ((5000, registered), (7000, fenced), (9000, stops)):
        quiet.on_commit(record, at_ms)
        assert quiet.missing_ms(at_ms + 1) == 999, record
        assert quiet.missing_ms(at_ms + 1000) == 0
    quiet.on_commit(
        ProducerIdsRecord(broker_id=B1, broker_epoch=epoch, next_producer_id=ProducerId(7)), 20_000
    )
    quiet.on_commit(came, 20_000)
    assert quiet.missing_ms(20_001) == 0
    quiet.on_unrest(30_000)
    assert quiet.missing_ms(30_500) == 500
