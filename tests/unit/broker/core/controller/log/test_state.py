"""The fold of the controller's log: epochs, incarnations, and what may never be replayed."""

from dataclasses import replace

import pytest

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    ControllerEpochRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from strandline_broker.core.controller.log.state import ControllerState
from strandline_proto.ids import ControllerEpoch, MetadataOffset
from support.controller_cluster import B1, B2, B3, Cluster


def test_every_change_raises_the_partition_epoch_and_a_named_leader_the_leader_epoch() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    before = cluster.partition(topic)
    cluster.commit(Decision((PartitionChangeRecord(topic_id=topic, partition=0),), None))
    quiet = cluster.partition(topic)
    assert quiet.partition_epoch == before.partition_epoch + 1
    assert quiet.leader_epoch == before.leader_epoch
    cluster.commit(Decision((PartitionChangeRecord(topic_id=topic, partition=0, leader=B1),), None))
    same = cluster.partition(topic)
    assert same.leader == before.leader
    assert same.leader_epoch == before.leader_epoch + 1
    assert same.partition_epoch == before.partition_epoch + 2


def test_a_change_that_breaks_the_isr_rules_cannot_be_replayed() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2))
    changes: list[dict[str, object]] = [
        {"isr": ()},
        {"isr": (B2,)},
        {"isr": (B1, B3)},
        {"isr": (B1, B1)},
        {"elr": (B2,)},
        {"isr": (B1,), "elr": (B1,)},
        {"isr": (B1,), "elr": (B3,)},
        {"isr": (B1,), "elr": (B2,), "last_known_elr": (B2,)},
    ]
    for fields in changes:
        change = PartitionChangeRecord(topic_id=topic, partition=0, **fields)  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="I-22"):
            cluster.state.replay(change, cluster.state.next_offset)


def test_a_broker_epoch_is_the_offset_of_the_registration() -> None:
    cluster = Cluster()
    epoch = cluster.register(B1)
    assert int(epoch) == cluster.state.last_offset
    assert cluster.state.brokers[B1].epoch == epoch
    assert cluster.state.brokers[B1].fenced


def test_a_controller_epoch_never_comes_twice() -> None:
    state = ControllerState()
    state.replay(ControllerEpochRecord(epoch=ControllerEpoch(1)), MetadataOffset(0))
    with pytest.raises(AssertionError):
        state.replay(ControllerEpochRecord(epoch=ControllerEpoch(1)), MetadataOffset(1))


def test_records_are_replayed_in_order_only() -> None:
    state = ControllerState()
    state.replay(ControllerEpochRecord(epoch=ControllerEpoch(1)), MetadataOffset(5))
    with pytest.raises(AssertionError):
        state.replay(ControllerEpochRecord(epoch=ControllerEpoch(2)), MetadataOffset(5))


def test_the_state_knows_in_which_controller_epoch_each_record_was_written() -> None:
    state = ControllerState()
    assert state.epoch_at(MetadataOffset(0)) is None
    state.replay(ControllerEpochRecord(epoch=ControllerEpoch(1)), MetadataOffset(0))
    state.replay(ControllerEpochRecord(epoch=ControllerEpoch(2)), MetadataOffset(3))
    assert [state.epoch_at(MetadataOffset(o)) for o in range(-1, 5)] == [None, 1, 1, 1, 2, None]


def test_the_isr_names_the_incarnation_that_counts_and_none_on_another_disk() -> None:
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,))
    epoch = cluster.state.brokers[B1].epoch
    assert cluster.state.isr_with_epochs(cluster.partition(topic)) == ((B1, epoch),)
    elsewhere = replace(cluster.partition(topic), directories=("another disk",))
    assert cluster.state.isr_with_epochs(elsewhere) == ((B1, -1),)


def test_min_insync_replicas_is_the_topics_own_or_the_default_but_never_above_the_replicas() -> (
    None
):
    cluster = Cluster([B1, B2, B3], min_insync=2)
    plain = cluster.topic("plain", (B1, B2, B3))
    single = cluster.topic("single", (B1,))
    strict = cluster.topic("strict", (B1, B2, B3), min_insync_replicas="3")

    def effective(topic_id: bytes, index: int = 0) -> int:
        topic = next(t for t in cluster.state.topics.values() if t.topic_id == topic_id)
        return cluster.state.effective_min_isr(topic, topic.partitions[index])

    assert [effective(plain), effective(single), effective(strict)] == [2, 1, 3]


def test_an_unregistered_broker_is_gone() -> None:
    cluster = Cluster()
    epoch = cluster.register(B1)
    cluster.commit(Decision((UnregisterBrokerRecord(broker_id=B1, broker_epoch=epoch),), None))
    assert cluster.state.brokers == {}
    assert cluster.envelopes[-1].removed_brokers == (B1,)
