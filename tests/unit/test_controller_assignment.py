"""Automatic assignments: distinct brokers, leaders and followers spread, racks apart."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.controller.assignment import Candidate, alternate_racks, assign
from strandline_proto.ids import BrokerId


def brokers(*racks: str) -> list[Candidate]:
    return [Candidate(BrokerId(n), rack) for n, rack in enumerate(racks, start=1)]


def test_leaders_go_round_from_the_start_that_was_given() -> None:
    for start in range(4):
        assigned = assign(brokers("", "", ""), partitions=3, replication_factor=3, start=start)
        assert [replicas[0] for replicas in assigned] == [(start + i) % 3 + 1 for i in range(3)]


def test_not_the_same_brokers_always_follow_the_same_leader() -> None:
    assigned = assign(brokers("", "", "", ""), partitions=12, replication_factor=2, start=0)
    assert len(set(assigned)) == 12


def test_replicas_are_on_different_racks_as_long_as_there_are_racks() -> None:
    candidates = brokers("a", "a", "a", "b", "b", "c")
    rack_of = {c.broker_id: c.rack for c in candidates}
    for replicas in assign(candidates, partitions=20, replication_factor=3, start=0):
        assert {rack_of[b] for b in replicas} == {"a", "b", "c"}
    for replicas in assign(candidates, partitions=20, replication_factor=4, start=0):
        assert {rack_of[b] for b in replicas} == {"a", "b", "c"}


def test_neighbours_on_the_ring_alternate_racks() -> None:
    ring = alternate_racks(brokers("a", "a", "b", "b"))
    assert [c.rack for c in ring] == ["a", "b", "a", "b"]


@given(
    racks=st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=7),
    partitions=st.integers(1, 40),
    start=st.integers(0, 100),
    data=st.data(),
)
def test_every_assignment_is_complete_and_leaders_differ_by_one_at_most(
    racks: list[str], partitions: int, start: int, data: st.DataObject
) -> None:
    candidates = brokers(*racks)
    factor = data.draw(st.integers(1, len(candidates)))
    assigned = assign(candidates, partitions=partitions, replication_factor=factor, start=start)
    assert len(assigned) == partitions
    for replicas in assigned:
        assert len(replicas) == len(set(replicas)) == factor
    counts = Counter(replicas[0] for replicas in assigned)
    fewest = min(counts.get(c.broker_id, 0) for c in candidates)
    assert max(counts.values()) - fewest <= 1
