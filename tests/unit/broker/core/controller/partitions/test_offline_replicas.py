"""What becomes of ISRs and leaders when a broker cannot serve some of its replicas (I-22)."""

from dataclasses import replace

import pytest

from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.log.records import (
    RECOVERED,
    OfflineReplica,
    OfflineReplicasRecord,
    decode,
    encode,
)
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    decide_alter_partition,
)
from strandline_broker.core.controller.partitions.offline_replicas import (
    decide_offline_replicas,
    tells_news,
)
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_proto.errors import IneligibleReplica, InvalidUpdateVersion, StaleBrokerEpoch
from strandline_proto.ids import NO_LEADER, BrokerEpoch, BrokerId, MetadataOffset, TopicId
from support.controller_cluster import B1, B2, B3, Cluster


def tell(cluster: Cluster, broker_id: BrokerId, *replicas: OfflineReplica) -> bool:
    """A heartbeat with this list; false if it changed nothing."""
    heartbeat = Heartbeat(
        broker_id=broker_id,
        broker_epoch=cluster.state.brokers[broker_id].epoch,
        current_metadata_offset=MetadataOffset(0),
        want_fence=False,
        want_shut_down=False,
        offline_replicas=frozenset(replicas),
    )
    news = tells_news(cluster.state, heartbeat)
    assert cluster.commit(decide_offline_replicas(cluster.state, heartbeat)) == news
    assert not tells_news(cluster.state, heartbeat), "the same list twice"
    return news


def lost(topic: TopicId, index: int = 0) -> OfflineReplica:
    return OfflineReplica(topic, index)


def hurt(topic: TopicId, index: int = 0) -> OfflineReplica:
    return OfflineReplica(topic, index, ReplicaCondition.DAMAGED)


@pytest.mark.parametrize("kind", [lost, hurt])
def test_an_offline_replica_leaves_the_isr_and_another_member_leads(kind: type) -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3), (B2, B1, B3))
    epoch = cluster.partition(topic).leader_epoch
    assert not tell(cluster, B1)
    assert tell(cluster, B1, kind(topic, 0), kind(topic, 1))
    led, followed = cluster.partition(topic), cluster.partition(topic, 1)
    assert (led.leader, led.isr, led.leader_epoch) == (B2, (B2, B3), epoch + 1)
    assert (followed.leader, followed.isr, followed.leader_epoch) == (B2, (B2, B3), epoch)
    told = {
        p.partition.index: p.offline_replicas for p in cluster.envelopes[-1].topics[0].partitions
    }
    why = kind(topic).condition
    assert told == {0: ((B1, why),), 1: ((B1, why),)}


def test_a_leader_whose_log_is_missing_is_not_eligible_once_another_leads() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    tell(cluster, B1, OfflineReplica(topic, 0, ReplicaCondition.MISSING))
    led = cluster.partition(topic)
    assert (led.leader, led.isr, led.elr) == (B2, (B2,), ())


def test_all_of_a_list_is_one_batch() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2), (B1, B2))
    before = len(cluster.envelopes)
    tell(cluster, B1, hurt(topic, 0), lost(topic, 1))
    assert len(cluster.envelopes) == before + 1


def test_the_last_member_leads_on_with_a_damaged_range_and_not_without_a_directory() -> None:
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,))
    before = cluster.partition(topic)
    tell(cluster, B1, hurt(topic))
    assert cluster.partition(topic) == before
    tell(cluster, B1, lost(topic))
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (NO_LEADER, ())
    cluster.fence(B1)
    cluster.up(B1, previous_broker_epoch=cluster.state.brokers[B1].epoch)
    assert cluster.partition(topic).leader == B1, "a new incarnation has told nothing yet"
    tell(cluster, B1, lost(topic))
    tell(cluster, B1)
    assert cluster.partition(topic).leader == B1


def test_a_sound_member_that_comes_later_takes_over_from_a_damaged_leader() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B2)
    tell(cluster, B1, hurt(topic))
    assert cluster.partition(topic).leader == B1
    cluster.up(B2)
    join(cluster, topic, B1, B2)
    assert cluster.partition(topic).isr == (B1, B2)
    tell(cluster, B1, hurt(topic))
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (B2, (B2,))


def join(cluster: Cluster, topic: TopicId, leader: BrokerId, joiner: BrokerId) -> None:
    partition, brokers = cluster.partition(topic), cluster.state.brokers
    proposal = Proposal(
        topic_id=topic,
        partition=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple((b, brokers[b].epoch) for b in (*partition.isr, joiner)),
        leader_recovery_state=RECOVERED,
    )
    (verdict,) = cluster.commit(
        decide_alter_partition(cluster.state, leader, brokers[leader].epoch, [proposal])
    )
    if verdict.error is not None:
        raise verdict.error


@pytest.mark.parametrize("kind", [lost, hurt])
def test_an_offline_replica_joins_no_isr_until_it_is_off_the_list(kind: type) -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    tell(cluster, B2, kind(topic))
    with pytest.raises(IneligibleReplica, match="broker 2 has reported its replica as offline"):
        join(cluster, topic, B1, B2)
    tell(cluster, B2)
    join(cluster, topic, B1, B2)
    assert cluster.partition(topic).isr == (B1, B2)


@pytest.mark.parametrize("kind", [lost, hurt])
def test_a_request_from_before_lets_no_replica_in_that_was_listed_since(kind: type) -> None:
    """Its leader has stopped counting it by the news, so it may lack what was committed (I-15)."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3), (B1, B2, B3))
    cluster.fence(B2)
    cluster.up(B2)
    asked = cluster.partition(topic)
    assert asked.isr == (B1, B3)
    epoch = asked.partition_epoch
    tell(cluster, B2, kind(topic))
    assert cluster.partition(topic).partition_epoch == epoch + 1
    assert cluster.partition(topic).leader_epoch == asked.leader_epoch
    told = cluster.envelopes[-1].topics[0].partitions
    assert [(p.partition.index, p.moved) for p in told] == [(0, True)], "its leader hears of it"
    tell(cluster, B2)
    late = Proposal(
        topic_id=topic,
        partition=0,
        leader_epoch=asked.leader_epoch,
        partition_epoch=epoch,
        isr=tuple((b, cluster.state.brokers[b].epoch) for b in (B1, B2, B3)),
        leader_recovery_state=RECOVERED,
    )
    leader = cluster.state.brokers[B1]
    (verdict,) = cluster.commit(decide_alter_partition(cluster.state, B1, leader.epoch, [late]))
    assert isinstance(verdict.error, InvalidUpdateVersion), verdict
    join(cluster, topic, B1, B2)
    assert cluster.partition(topic).isr == (B1, B2, B3)


def test_an_offline_replica_is_not_elected_when_the_leader_dies() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    tell(cluster, B2, lost(topic))
    cluster.fence(B1)
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (B3, (B3,))


def test_two_damaged_members_do_not_leave_the_partition_without_a_leader() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    tell(cluster, B1, hurt(topic))
    tell(cluster, B2, hurt(topic))
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (B2, (B2,))


def test_a_damaged_replica_leaves_the_elr_beside_a_sound_leader() -> None:
    """It heals now, and would be elected cleanly without what it has cut off (I-15, I-48)."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    epoch = cluster.partition(topic).leader_epoch
    for gone in (B3, B2):
        cluster.fence(gone)
        cluster.all_apply()
    assert cluster.partition(topic).elr == (B2,)
    cluster.up(B2, previous_broker_epoch=cluster.state.brokers[B2].epoch)
    assert cluster.partition(topic).elr == (B2,)
    tell(cluster, B2, hurt(topic))
    partition = cluster.partition(topic)
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((B1,), (), (B2,))
    assert (partition.leader, partition.leader_epoch) == (B1, epoch)
    tell(cluster, B2)
    cluster.fence(B1)
    assert cluster.partition(topic).leader == NO_LEADER, "healed, it may still lack the end"


def test_beside_a_damaged_leader_a_damaged_replica_keeps_its_place() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B2)
    tell(cluster, B1, hurt(topic))
    cluster.register(B2, previous_broker_epoch=cluster.state.brokers[B2].epoch)
    tell(cluster, B2, hurt(topic))
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr, partition.elr) == (B1, (B1,), (B2,))


def test_a_member_that_serves_nothing_makes_way_for_a_damaged_one() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B2)
    tell(cluster, B1, hurt(topic))
    cluster.up(B2)
    join(cluster, topic, B1, B2)
    tell(cluster, B2, lost(topic))
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (B1, (B1,))


def test_the_list_outlives_the_controller_and_not_the_incarnation() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    tell(cluster, B1, hurt(topic), lost(topic, 7))
    again = ControllerState()
    for offset, record in enumerate(cluster.log):
        again.replay(decode(record), MetadataOffset(offset))
    assert again.brokers[B1].offline_replicas == {hurt(topic), lost(topic, 7)}
    cluster.register(B1)
    assert cluster.state.brokers[B1].offline_replicas == frozenset()


def test_a_former_incarnation_has_no_say() -> None:
    cluster = Cluster([B1])
    heartbeat = Heartbeat(
        broker_id=B1,
        broker_epoch=cluster.state.brokers[B1].epoch,
        current_metadata_offset=MetadataOffset(0),
        want_fence=False,
        want_shut_down=False,
    )
    with pytest.raises(StaleBrokerEpoch):
        tells_news(cluster.state, replace(heartbeat, broker_epoch=BrokerEpoch(0)))
    with pytest.raises(StaleBrokerEpoch):
        decide_offline_replicas(cluster.state, replace(heartbeat, broker_epoch=BrokerEpoch(0)))


def full(topic: TopicId) -> OfflineReplica:
    return OfflineReplica(topic, 0, ReplicaCondition.DISK_FULL)


def test_a_full_leader_hands_over_to_a_sound_member_and_may_come_back() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    tell(cluster, B1, full(topic))
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (B2, (B2, B3))
    tell(cluster, B1)
    join(cluster, topic, B2, B1)
    assert cluster.partition(topic).isr == (B1, B2, B3)


def test_a_full_replica_beside_no_sound_member_leads_on() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    tell(cluster, B2, full(topic))
    assert cluster.partition(topic).isr == (B1,)
    tell(cluster, B1, full(topic))
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (B1, (B1,))


def test_a_full_replica_stays_eligible() -> None:
    """I-50: it holds all that it acknowledged."""
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    tell(cluster, B2, full(topic))
    assert cluster.partition(topic).elr == (B2,)
    cluster.fence(B1)
    cluster.up(B1, previous_broker_epoch=cluster.state.brokers[B1].epoch)
    assert cluster.partition(topic).leader != NO_LEADER


def test_a_replica_that_refused_to_cut_leaves_the_isr_and_can_be_elected() -> None:
    """I-41: it holds what its leader lacks."""
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    tell(cluster, B2, OfflineReplica(topic, 0, ReplicaCondition.TRUNCATION_REFUSED))
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr, partition.elr) == (B1, (B1,), (B2,))
    with pytest.raises(IneligibleReplica):
        join(cluster, topic, B1, B2)
    cluster.fence(B1)
    assert cluster.partition(topic).leader == B2


@pytest.mark.parametrize("missing", [c for c in ReplicaCondition if c.is_gone])
def test_a_missing_replica_counts_as_lost_only_beside_another_leader(
    missing: ReplicaCondition,
) -> None:
    """I-50: an unmounted disk looks like a new one."""
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B2)
    cluster.up(B2, previous_broker_epoch=cluster.state.brokers[B2].epoch)
    assert cluster.partition(topic).elr == (B2,)
    tell(cluster, B2, OfflineReplica(topic, 0, missing))
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((B1,), ())
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,))
    cluster.fence(B1)
    cluster.up(B1, previous_broker_epoch=cluster.state.brokers[B1].epoch)
    tell(cluster, B1, OfflineReplica(topic, 0, missing))
    partition = cluster.partition(topic)
    assert (partition.leader, partition.elr) == (NO_LEADER, (B1,))
    tell(cluster, B1)
    assert cluster.partition(topic).leader == B1


def test_a_log_from_before_there_were_more_conditions_is_read() -> None:
    old = (
        b'{"type":"OfflineReplicas","broker_id":1,"broker_epoch":5,"replicas":['
        b'{"topic_id":"AAAAAAAAAAAAAAAAAAAAAA==","partition":0,"damaged":true},'
        b'{"topic_id":"AAAAAAAAAAAAAAAAAAAAAA==","partition":1,"damaged":false}]}'
    )
    record = decode(old)
    assert isinstance(record, OfflineReplicasRecord)
    topic = TopicId(bytes(16))
    assert record.replicas == (
        OfflineReplica(topic, 0, ReplicaCondition.DAMAGED),
        OfflineReplica(topic, 1, ReplicaCondition.OUT_OF_SERVICE),
    )
    assert decode(encode(record)) == record
    assert b'damaged":true' not in encode(record)
