"""Random clusters and topics against what automatic assignments promise."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.controller.topics.assignment import Candidate, Load, assign
from strandline_proto.ids import BrokerId

sizes = st.lists(st.sampled_from([1, 1, 1, 2, 3, 5, 8, 21]), min_size=1, max_size=20)


def differ_by_one_at_most(counts: Iterable[int]) -> bool:
    known = list(counts)
    return max(known) - min(known) <= 1


@given(rack_count=st.integers(0, 4), rack_size=st.integers(1, 3), topics=sizes, data=st.data())
def test_all_counts_are_even_where_racks_permit(
    rack_count: int, rack_size: int, topics: list[int], data: st.DataObject
) -> None:
    """Racks of one size; without racks each broker is one of its own."""
    number = rack_count * rack_size or data.draw(st.integers(1, 8))
    racks = [f"rack-{n % rack_count}" if rack_count else "" for n in range(number)]
    candidates = [Candidate(BrokerId(n), rack) for n, rack in enumerate(racks)]
    factor = data.draw(st.integers(1, min(number, rack_count or number)))
    ids, cluster = [c.broker_id for c in candidates], Load()
    for partitions in topics:
        made = assign(candidates, partitions=partitions, replication_factor=factor, cluster=cluster)
        assert len(made) == partitions
        for replicas in made:
            assert len(set(replicas)) == len(replicas) == factor
            if rack_count:
                assert len({racks[b] for b in replicas}) == factor
        of_topic = Counter(replicas[0] for replicas in made)
        assert differ_by_one_at_most(of_topic[b] for b in ids)
        assert differ_by_one_at_most(cluster.leading[b] for b in ids)
        average = sum(cluster.holding.values()) / number
        assert all(abs(cluster.holding[b] - average) <= 3 for b in ids)
        for leader in ids if factor > 1 else ():
            heirs = [
                cluster.heirs[leader, b]
                for b in ids
                if b != leader and not (rack_count and racks[b] == racks[leader])
            ]
            assert differ_by_one_at_most(heirs)


@given(
    racks=st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=7),
    topics=sizes,
    data=st.data(),
)
def test_with_any_racks_replicas_are_apart_and_leaders_even(
    racks: list[str], topics: list[int], data: st.DataObject
) -> None:
    candidates = [Candidate(BrokerId(n), rack) for n, rack in enumerate(racks)]
    factor = data.draw(st.integers(1, len(candidates)))
    cluster = Load()
    failure_domains = len({r for r in racks if r}) + racks.count("")
    for partitions in topics:
        for replicas in assign(
            candidates, partitions=partitions, replication_factor=factor, cluster=cluster
        ):
            assert len(set(replicas)) == len(replicas) == factor
            domains = {racks[b] or f"broker {b}" for b in replicas}
            assert len(domains) == min(factor, failure_domains)
        assert differ_by_one_at_most(cluster.leading[c.broker_id] for c in candidates)


@given(before=st.lists(st.permutations(range(5)), max_size=12), partitions=st.integers(1, 12))
def test_whatever_was_before_a_topic_is_spread_by_itself(
    before: list[list[int]], partitions: int
) -> None:
    candidates = [Candidate(BrokerId(n), "") for n in range(5)]
    cluster = Load()
    for replicas in before:
        cluster.add([BrokerId(b) for b in replicas[:3]])
    made = assign(candidates, partitions=partitions, replication_factor=3, cluster=cluster)
    counts = Counter(replicas[0] for replicas in made)
    assert differ_by_one_at_most(counts[c.broker_id] for c in candidates)
