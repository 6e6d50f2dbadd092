"""The range assignor: of every topic a range for each subscriber, topics of one shape alike."""

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.groups.assignors import GroupSpec, MemberSpec
from strandline_broker.core.groups.assignors.range import RangeAssignor
from strandline_proto.ids import TopicId

TOPICS = [TopicId(bytes([n]) * 16) for n in range(1, 4)]
A, B, C = TOPICS


def member(*topics: TopicId, instance: str | None = None) -> MemberSpec:
    return MemberSpec(instance, None, frozenset(topics), {})


def test_the_first_members_get_one_more_of_every_topic() -> None:
    spec = GroupSpec({name: member(A, B) for name in "cab"}, {A: 7, B: 4})
    assert RangeAssignor().assign(spec) == {
        "a": {A: (0, 1, 2), B: (0, 1)},
        "b": {A: (3, 4), B: (2,)},
        "c": {A: (5, 6), B: (3,)},
    }


def test_members_beyond_the_partitions_get_nothing() -> None:
    spec = GroupSpec({name: member(A) for name in "abc"}, {A: 2})
    assert RangeAssignor().assign(spec) == {"a": {A: (0,)}, "b": {A: (1,)}, "c": {}}


def test_static_members_stand_in_the_order_of_their_instances() -> None:
    spec = GroupSpec({"x": member(A, instance="2"), "y": member(A, instance="1")}, {A: 2})
    assert RangeAssignor().assign(spec) == {"x": {A: (1,)}, "y": {A: (0,)}}


def test_only_subscribers_share_a_topic_and_topics_that_do_not_exist_are_nobodys() -> None:
    spec = GroupSpec({"a": member(A, B, C), "b": member(A)}, {A: 2, B: 2})
    assert RangeAssignor().assign(spec) == {"a": {A: (0,), B: (0, 1)}, "b": {A: (1,)}}


@given(
    st.dictionaries(
        st.text("abcd", min_size=1, max_size=2),
        st.builds(
            MemberSpec, st.none(), st.none(), st.frozensets(st.sampled_from(TOPICS)), st.just({})
        ),
        max_size=6,
    ),
    st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12)),
)
def test_ranges_cover_a_topic_in_the_order_of_its_subscribers(
    members: dict[str, MemberSpec], partitions: dict[TopicId, int]
) -> None:
    after = RangeAssignor().assign(GroupSpec(members, partitions))
    assert after.keys() == members.keys()
    for topic in TOPICS:
        readers = sorted(name for name in members if topic in members[name].topics)
        ranges = [after[name].get(topic, ()) for name in readers]
        together = [partition for found in ranges for partition in found]
        assert together == list(range(partitions.get(topic, 0) if readers else 0))
        sizes = [len(found) for found in ranges]
        assert sizes == sorted(sizes, reverse=True)
        assert not sizes or sizes[0] - sizes[-1] <= 1
