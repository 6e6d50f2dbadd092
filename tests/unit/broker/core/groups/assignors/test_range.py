"""`range`: one range of each topic for each of its subscribers."""

from strandline_broker.core.groups.assignors import GroupSpec, MemberSpec
from strandline_broker.core.groups.assignors.range import RangeAssignor
from strandline_proto.ids import TopicId

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def member(*topics: TopicId, instance: str | None = None) -> MemberSpec:
    return MemberSpec(instance, None, frozenset(topics), {})


def test_the_first_members_get_what_the_division_leaves() -> None:
    spec = GroupSpec({"n": member(A, B), "m": member(A, B), "o": member(A, B)}, {A: 7, B: 3})
    assert RangeAssignor().assign(spec) == {
        "m": {A: (0, 1, 2), B: (0,)},
        "n": {A: (3, 4), B: (1,)},
        "o": {A: (5, 6), B: (2,)},
    }


def test_only_subscribers_get_partitions_and_some_get_none() -> None:
    spec = GroupSpec({"m": member(A), "n": member(B), "o": member(B)}, {A: 2, B: 1})
    assert RangeAssignor().assign(spec) == {"m": {A: (0, 1)}, "n": {B: (0,)}, "o": {}}


def test_static_members_keep_their_places_under_new_ids() -> None:
    before = GroupSpec({"x": member(A, instance="1"), "m": member(A, instance="2")}, {A: 2})
    after = GroupSpec({"x": member(A, instance="1"), "a": member(A, instance="2")}, {A: 2})
    assert RangeAssignor().assign(before)["m"] == RangeAssignor().assign(after)["a"] == {A: (1,)}


def test_a_group_without_topics_has_nothing_to_divide() -> None:
    assert RangeAssignor().assign(GroupSpec({"m": member()}, {})) == {"m": {}}
