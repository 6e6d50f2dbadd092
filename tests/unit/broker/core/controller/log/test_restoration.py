"""A state made anew from what the brokers hold: no number is given out a second time."""

import pytest

from strandline_broker.core.controller.log.restoration import (
    KEEP_ALL,
    LEADER_EPOCH_STEP,
    OFFSET_STEP,
    PRODUCER_ID_STEP,
    CannotRestore,
    FoundBroker,
    FoundReplica,
    Restored,
    restored_state,
)
from strandline_broker.core.controller.log.snapshot import restore, take
from strandline_broker.core.controller.log.state import ControllerState
from strandline_proto.errors import InconsistentClusterId
from strandline_proto.ids import NO_LEADER, BrokerId, TopicId
from support.controller_cluster import B1, B2, B3, Cluster, registration
from support.controller_store import same

U = TopicId(b"u" * 16)


def found(
    broker_id: BrokerId,
    *replicas: FoundReplica,
    epoch: int = 7,
    offset: int = 900,
    store: str = "lost",
) -> FoundBroker:
    return FoundBroker(broker_id, "c", f"dir-{broker_id}", store, epoch, offset, replicas)


def replica(
    topic: str, topic_id: TopicId, partition: int, *, epoch: int = 4, producer: int = -1
) -> FoundReplica:
    return FoundReplica(topic, topic_id, partition, epoch, producer)


def restored(
    old: ControllerState | None, *brokers: FoundBroker, recreate_missing: bool = False
) -> Restored:
    return restored_state(old, "old", brokers, recreate_missing=recreate_missing)


def test_every_number_goes_above_what_any_broker_and_the_store_know() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2), min_insync_replicas="2")
    cluster.alter("1", {"log.retention.ms": "5000"})
    old = cluster.state
    state = restored(
        old,
        found(B1, replica("t", topic, 0, epoch=30, producer=5500)),
        found(B2, replica("t", topic, 0, epoch=31), epoch=9, offset=5000),
    ).state
    assert state.controller_epoch > 9
    assert state.last_offset > max(5000, old.last_offset) + 100_000
    assert state.next_producer_id > 5500 + 10**9, "blocks may be out that no log knows"
    partition = state.topics[topic].partitions[0]
    assert partition.leader_epoch >= 31 + 100, "epochs may have been given that no log knows"
    assert partition.partition_epoch > 1000
    assert state.topics[topic].configs == {"min.insync.replicas": "2"}
    assert state.broker_configs == old.broker_configs
    assert state.defaults == old.defaults
    assert state.former_stores == ["old", "lost"]
    assert state.epoch_at(state.last_offset) == state.controller_epoch
    again = ControllerState()
    restore(again, list(take(state).values()))
    assert same(again, state)


def test_the_store_counts_where_it_knows_more_than_any_broker() -> None:
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,))
    old = cluster.state
    for _ in range(3):
        cluster.fence(B1)
        cluster.unfence(B1)
    state = restored(old, found(B1, replica("t", topic, 0, epoch=0), epoch=0, offset=0)).state
    before = old.topics[topic].partitions[0]
    assert state.topics[topic].partitions[0].leader_epoch >= before.leader_epoch + LEADER_EPOCH_STEP
    assert state.last_offset > old.last_offset
    assert state.next_producer_id >= old.next_producer_id + PRODUCER_ID_STEP


def test_two_restorations_of_one_copy_name_nothing_alike() -> None:
    """I-3: who knew the first one best is not there for the second; the others have heard of it."""
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    both = [found(b, replica("t", topic, 0)) for b in (B1, B2)]
    first = restored(cluster.state, *both).state
    epoch, offset = first.controller_epoch, first.last_offset
    heard = found(B2, replica("t", topic, 0), epoch=epoch, offset=offset)
    second = restored(cluster.state, heard).state
    epochs = [made.topics[topic].partitions[0].leader_epoch for made in (first, second)]
    assert epochs[1] - epochs[0] > 50 * LEADER_EPOCH_STEP
    assert second.next_producer_id - first.next_producer_id > 50 * PRODUCER_ID_STEP


def test_an_offset_just_below_a_step_leaves_room_too() -> None:
    state = restored(None, found(B1, offset=OFFSET_STEP - 1)).state
    assert state.last_offset >= 2 * OFFSET_STEP - 1


def test_a_partition_waits_for_all_who_hold_it_and_has_no_leader() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B2, B1, B3))
    made = restored(
        cluster.state,
        found(B1, replica("t", topic, 0)),
        found(B2, replica("t", topic, 0)),
        found(BrokerId(4), replica("t", topic, 0)),
    )
    partition = made.state.topics[topic].partitions[0]
    assert partition.replicas == (B2, B1, B3, 4)
    assert partition.directories == ("dir-2", "dir-1", "dir-3", "dir-4")
    assert (partition.isr, partition.elr, partition.leader) == ((), (), NO_LEADER)
    assert partition.last_known_elr == (B2, B1, 4)
    assert any("broker 3 were not given" in line for line in made.lines)


def test_a_topic_that_only_brokers_know_is_kept_with_its_id_and_all_its_records() -> None:
    made = restored(
        None, found(B1, replica("u", U, 0), replica("u", U, 1)), found(B2, replica("u", U, 1))
    )
    topic = made.state.topics[U]
    assert (topic.name, topic.configs) == ("u", KEEP_ALL)
    assert [p.replicas for p in topic.partitions.values()] == [(B1,), (B1, B2)]
    assert made.state.topic_ids == {"u": U}


def test_what_holds_for_a_topic_whose_configuration_is_lost_is_named() -> None:
    """The minimum it had may have been another: what was acknowledged hangs by it (I-91)."""
    static = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    brokers = [found(B1, replica("u", U, 0))]
    made = restored_state(None, None, brokers, recreate_missing=False, defaults=static)
    line = made.lines[-1]
    assert line.startswith("the configuration of u is lost; what holds now: retention.ms=-1,")
    assert "min.insync.replicas=2, unclean.leader.election.enable=false" in line
    assert "strandline config alter topic u --set min.insync.replicas=N" in line
    line = restored(None, *brokers).lines[-1]
    assert "min.insync.replicas as the controller's configuration says" in line


def test_a_default_that_was_altered_holds_where_a_configuration_is_lost() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1,))
    cluster.alter("", {"min.insync.replicas": "3"})
    brokers = [found(B1, replica("t", topic, 0), replica("u", U, 0)), found(B2)]
    v = replica("v", TopicId(b"v" * 16), 0)
    more = [*brokers, found(B3, v)]
    static = {"min.insync.replicas": "2"}
    line = restored_state(cluster.state, None, more, recreate_missing=False, defaults=static).lines[
        -1
    ]
    assert "min.insync.replicas=3," in line
    assert "config alter topic TOPIC " in line, "of both, u and v"
    known = restored(cluster.state, found(B1, replica("t", topic, 0)), found(B2))
    assert not any("what holds now" in line for line in known.lines)


def test_a_topic_that_none_of_its_brokers_holds_was_deleted_since() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    assert restored(cluster.state, found(B1), found(B2)).state.topics == {}
    with pytest.raises(CannotRestore, match=r"t:0: no data directory .* holds it"):
        restored(cluster.state, found(B1))
    made = restored(cluster.state, found(B1), recreate_missing=True)
    assert made.state.topics[topic].partitions[0].replicas == (B1,)
    assert any("EMPTY" in line for line in made.lines)


def test_a_hole_between_partitions_is_not_passed_over() -> None:
    hole = found(B1, replica("u", U, 0), replica("u", U, 2))
    with pytest.raises(CannotRestore, match="u:1"):
        restored(None, hole)
    state = restored(None, hole, recreate_missing=True).state
    assert list(state.topics[U].partitions) == [0, 1, 2]


def test_of_two_topics_with_one_name_the_known_one_or_the_fuller_one_is_kept() -> None:
    other = TopicId(b"o" * 16)
    both = found(B1, replica("u", U, 0), replica("u", U, 1)), found(B2, replica("u", other, 0))
    made = restored(None, *both)
    assert list(made.state.topics) == [U]
    assert any("nothing deletes" in line for line in made.lines)
    cluster = Cluster([B1, B2])
    topic = cluster.topic("u", (B1,))
    made = restored(cluster.state, found(B1, replica("u", topic, 0)), found(B2, replica("u", U, 0)))
    assert list(made.state.topics) == [topic]


def test_a_broker_that_was_not_part_of_it_is_refused_and_the_controller_goes_on() -> None:
    cluster = Cluster()
    cluster.state = restored(None, found(B1)).state
    left_out = registration(B2, "one", store_id="lost", controller_epoch=7, metadata_offset=990)
    with pytest.raises(InconsistentClusterId, match="restored without the broker"):
        cluster.decide_registration(left_out)
    assert int(cluster.register(B1)) == cluster.state.last_offset
