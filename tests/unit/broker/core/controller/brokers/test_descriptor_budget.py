"""More replicas than a broker's descriptors allow are refused, with the numbers."""

import pytest

from strandline_broker.core.controller.brokers.descriptor_budget import check_room, each_counted
from strandline_broker.core.controller.log.records import decode, encode
from strandline_broker.core.controller.partitions.reassignment import Wish, decide_reassignments
from strandline_broker.core.controller.topics.added_partitions import (
    MorePartitions,
    decide_create_partitions,
)
from strandline_broker.core.controller.topics.topics import NewTopic, decide_create_topic
from strandline_proto.errors import InvalidPartitions
from strandline_proto.ids import BrokerId, TopicId
from support.controller_cluster import B1, B2, B3, DEFAULTS, Cluster

ROOM = 10


def cluster_of(replicas_max: int = ROOM) -> Cluster:
    """Broker 2 has room for so many."""
    cluster = Cluster()
    for broker_id in (B1, B2, B3):
        cluster.up(broker_id, replicas_max=replicas_max if broker_id == B2 else 0)
    return cluster


def create(cluster: Cluster, partitions: int, *assignments: tuple[BrokerId, ...]) -> None:
    by_hand = tuple(enumerate(assignments))
    factor = -1 if by_hand else 3
    wish = NewTopic(f"t{partitions}", -1 if by_hand else partitions, factor, by_hand, ())
    topic_id = TopicId(bytes([partitions]) * 16)
    cluster.commit(
        decide_create_topic(
            cluster.state, wish, defaults=DEFAULTS, topic_id=topic_id, validate_only=False
        )
    )


def test_a_topic_that_a_brokers_descriptors_do_not_allow_is_refused_with_the_numbers() -> None:
    cluster = cluster_of()
    create(cluster, 6)
    before = cluster.state.next_offset
    with pytest.raises(
        InvalidPartitions,
        match=r"t5: broker 2 holds 6 replicas and was to hold 5 more, its limit of open files is"
        r" enough for 10: raise that limit by 1 \(ulimit -Hn, LimitNOFILE=\)",
    ):
        create(cluster, 5)
    assert cluster.state.next_offset == before
    create(cluster, 4)
    create(cluster, 9, (B1, B3), (B3, B1))  # others have room
    with pytest.raises(InvalidPartitions, match="broker 2 holds 10 replicas and was to hold 1"):
        create(cluster, 1, (B1, B2))


def test_a_broker_may_have_exactly_what_is_enough() -> None:
    state = cluster_of().state
    check_room(state, "t", each_counted([(B1, B2)] * ROOM))
    with pytest.raises(InvalidPartitions):
        check_room(state, "t", each_counted([(B1, B2)] * ROOM + [(B2,)]))


def test_a_broker_that_does_not_say_is_not_limited() -> None:
    create(cluster_of(0), 200)


def test_what_a_broker_has_room_for_is_told_by_each_incarnation_and_survives_the_controller() -> (
    None
):
    cluster = cluster_of()
    create(cluster, ROOM)
    with pytest.raises(InvalidPartitions):
        create(cluster, 1)
    (kept,) = (
        record for record in map(decode, cluster.log) if getattr(record, "replicas_max", 0) == ROOM
    )
    assert decode(encode(kept)) == kept
    cluster.up(B2, replicas_max=ROOM + 1)
    create(cluster, 1)


def test_more_partitions_are_refused_too() -> None:
    cluster = cluster_of()
    create(cluster, 6)
    for validate_only in (True, False):
        with pytest.raises(InvalidPartitions, match="topic t6: broker 2 holds 6"):
            decide_create_partitions(
                cluster.state, MorePartitions("t6", 11), validate_only=validate_only
            )
    cluster.commit(
        decide_create_partitions(cluster.state, MorePartitions("t6", 10), validate_only=False)
    )


def test_moves_of_one_request_are_counted_together_and_each_is_judged_by_itself() -> None:
    cluster = cluster_of()
    create(cluster, 12, *[(B1, B2)] * 9, *[(B1, B3)] * 3)
    wishes = [Wish("t12", 0, (B2, B1)), *(Wish("t12", index, (B1, B2)) for index in (9, 10, 11))]
    results = cluster.commit(decide_reassignments(cluster.state, wishes))
    assert [result.error is None for result in results] == [True, True, False, False]
    assert isinstance(results[2].error, InvalidPartitions)
