"""Automatic assignments: distinct brokers, leaders and followers spread, racks apart."""

from collections import Counter

from strandline_broker.core.controller.topics.assignment import (
    Candidate,
    Load,
    alternate_racks,
    assign,
    load_of,
)
from strandline_proto.ids import BrokerId


def brokers(*racks: str) -> list[Candidate]:
    return [Candidate(BrokerId(n), rack) for n, rack in enumerate(racks, start=1)]


def assigned(
    candidates: list[Candidate], partitions: int, factor: int, cluster: Load | None = None
) -> list[tuple[BrokerId, ...]]:
    load = Load() if cluster is None else cluster
    return assign(candidates, partitions=partitions, replication_factor=factor, cluster=load)


def test_the_first_topic_of_an_even_cluster_goes_round_the_ring() -> None:
    made = assigned(brokers("", "", ""), 4, 3)
    assert made == [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2)]


def test_topics_of_one_partition_are_led_by_all_brokers_alike() -> None:
    cluster = Load()
    leaders = [assigned(brokers("", "", ""), 1, 2, cluster)[0][0] for _ in range(7)]
    assert Counter(leaders) == {1: 3, 2: 2, 3: 2}


def test_a_new_broker_gets_its_share_of_a_topic_and_not_all_of_it() -> None:
    old = load_of([(BrokerId(1), BrokerId(2)), (BrokerId(2), BrokerId(1))] * 20)
    made = assigned(brokers("", "", ""), 7, 2, old)
    assert Counter(replicas[0] for replicas in made) == {1: 2, 2: 2, 3: 3}


def test_partitions_are_added_where_the_topic_has_fewest_leaders() -> None:
    here = [(BrokerId(1), BrokerId(2)), (BrokerId(2), BrokerId(3))]
    made = assign(
        brokers("", "", ""),
        partitions=1,
        replication_factor=2,
        cluster=load_of([*here, *[(BrokerId(3), BrokerId(1))] * 5]),
        topic=load_of(here),
    )
    assert made[0][0] == 3


def test_what_a_dead_broker_led_fans_out() -> None:
    cluster = Load()
    made = [assigned(brokers("", "", "", ""), 1, 3, cluster)[0] for _ in range(24)]
    heirs = Counter(replicas[1] for replicas in made if replicas[0] == 1)
    assert heirs == {2: 2, 3: 2, 4: 2}


def test_the_third_replica_goes_to_whoever_holds_fewest() -> None:
    held = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (4, 3, 2), (1, 2), (2, 1), (3, 2), (4, 2)]
    load = load_of([[BrokerId(b) for b in replicas] for replicas in held])
    assert assigned(brokers("", "", "", ""), 1, 3, load) == [(4, 1, 3)]


def test_replicas_are_on_different_racks_as_long_as_there_are_racks() -> None:
    candidates = brokers("a", "a", "a", "b", "b", "c")
    rack_of = {c.broker_id: c.rack for c in candidates}
    for replicas in assigned(candidates, 20, 3):
        assert {rack_of[b] for b in replicas} == {"a", "b", "c"}
    for replicas in assigned(candidates, 20, 4):
        assert {rack_of[b] for b in replicas} == {"a", "b", "c"}


def test_more_replicas_than_racks_are_even_over_the_racks() -> None:
    candidates = brokers("a", "a", "a", "b", "b", "b")
    rack_of = {c.broker_id: c.rack for c in candidates}
    for replicas in assigned(candidates, 12, 4):
        assert Counter(rack_of[b] for b in replicas) == {"a": 2, "b": 2}


def test_neighbours_on_the_ring_alternate_racks() -> None:
    ring = alternate_racks(brokers("a", "a", "b", "b"))
    assert [c.rack for c in ring] == ["a", "b", "a", "b"]


def test_the_load_is_brought_up_to_date() -> None:
    cluster, topic = Load(), Load()
    made = assign(
        brokers("", "", ""), partitions=5, replication_factor=2, cluster=cluster, topic=topic
    )
    assert cluster == topic == load_of(made)
