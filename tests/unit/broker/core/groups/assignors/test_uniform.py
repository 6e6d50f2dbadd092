"""The uniform assignor: total, even, sticky, and the same in every process (I-129, I-140)."""

from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.groups.assignors import GroupSpec, MemberSpec
from strandline_broker.core.groups.assignors.uniform import UniformAssignor
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.core.groups.assignors import GroupAssignment, PartitionSets

TOPICS = [TopicId(bytes([n]) * 16) for n in range(1, 5)]
A, B, C, D = TOPICS


def member(
    *topics: TopicId, had: "PartitionSets | None" = None, instance: str | None = None
) -> MemberSpec:
    return MemberSpec(instance, None, frozenset(topics), had or {})


def assign(
    members: "Mapping[str, MemberSpec]", partitions: "Mapping[TopicId, int]"
) -> "GroupAssignment":
    return UniformAssignor().assign(GroupSpec(members, partitions))


def again(members: "Mapping[str, MemberSpec]", had: "GroupAssignment") -> dict[str, MemberSpec]:
    """The members with what they were assigned; newcomers with nothing."""
    return {
        name: MemberSpec(m.instance_id, m.rack_id, m.topics, had.get(name, {}))
        for name, m in members.items()
    }


def pairs(owned: "PartitionSets") -> set[tuple[TopicId, int]]:
    return {(topic, partition) for topic, partitions in owned.items() for partition in partitions}


def moves(before: "GroupAssignment", after: "GroupAssignment", among: "Iterable[str]") -> int:
    """How many partitions members that were there before have lost."""
    return sum(len(pairs(before[name]) - pairs(after[name])) for name in among if name in before)


def load(assignment: "GroupAssignment", name: str) -> int:
    return len(pairs(assignment[name]))


def test_new_members_share_evenly_topic_by_topic() -> None:
    assert assign({"a": member(A, B), "b": member(A, B)}, {A: 3, B: 3}) == {
        "a": {A: (0, 2), B: (1,)},
        "b": {A: (1,), B: (0, 2)},
    }


def test_a_newcomer_gets_its_share_and_the_others_keep_theirs() -> None:
    members = {"a": member(A), "b": member(A)}
    before = assign(members, {A: 6})
    after = assign(again({**members, "c": member(A)}, before), {A: 6})
    assert [load(after, name) for name in "abc"] == [2, 2, 2]
    assert moves(before, after, "ab") == 2


def test_what_a_leaver_had_goes_to_the_others_and_nothing_else_moves() -> None:
    members = {name: member(A, B) for name in "abcd"}
    before = assign(members, {A: 10, B: 7})
    after = assign(again({name: members[name] for name in "abd"}, before), {A: 10, B: 7})
    assert moves(before, after, "abd") == 0
    assert sorted(load(after, name) for name in "abd") == [5, 6, 6]


def test_more_members_than_partitions_leave_some_with_nothing() -> None:
    after = assign({name: member(A) for name in "abc"}, {A: 2})
    assert after == {"a": {A: (0,)}, "b": {A: (1,)}, "c": {}}


def test_what_a_member_claims_of_gone_or_smaller_topics_is_not_given_to_it() -> None:
    had = {A: (0, 7), B: (0,), C: (0,)}
    assert assign({"a": member(A, B, had=had)}, {A: 2}) == {"a": {A: (0, 1)}}


def test_of_two_that_claim_the_same_partition_one_keeps_it() -> None:
    after = assign({"a": member(A, had={A: (0,)}), "b": member(A, had={A: (0,)})}, {A: 2})
    assert after == {"a": {A: (0,)}, "b": {A: (1,)}}


def test_a_static_members_place_does_not_depend_on_its_member_id() -> None:
    for member_id in ("a", "z"):
        after = assign({"m": member(A), member_id: member(A, instance="k")}, {A: 3})
        assert after[member_id] == {A: (0, 2)}


def test_a_member_that_alone_reads_a_topic_gets_less_of_the_shared_one() -> None:
    after = assign({"a": member(A, B), "b": member(A)}, {A: 6, B: 4})
    assert load(after, "a") == load(after, "b") == 5


def test_partitions_move_where_a_new_subscription_evens_them_out() -> None:
    after = assign({"a": member(A, B, had={A: (0, 1, 2, 3)}), "b": member(A, B)}, {A: 4, B: 0})
    assert [load(after, name) for name in "ab"] == [2, 2]
    assert after["a"] == {A: (0, 1)}


def specs(*, equal: bool) -> st.SearchStrategy[tuple[dict[str, MemberSpec], dict[TopicId, int]]]:
    subscriptions = st.just(frozenset(TOPICS)) if equal else st.frozensets(st.sampled_from(TOPICS))
    claims = st.dictionaries(
        st.sampled_from(TOPICS),
        st.frozensets(st.integers(0, 9)).map(lambda found: tuple(sorted(found))),
    )
    members = st.dictionaries(
        st.text("abcdefgh", min_size=1, max_size=2),
        st.builds(MemberSpec, st.none(), st.none(), subscriptions, claims),
        max_size=8,
    )
    return st.tuples(members, st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9)))


@given(specs(equal=False))
def test_every_partition_has_one_owner_that_subscribes(
    drawn: tuple[dict[str, MemberSpec], dict[TopicId, int]],
) -> None:
    members, partitions = drawn
    after = assign(members, partitions)
    assert after.keys() == members.keys()
    wanted = {
        (topic, partition)
        for topic, count in partitions.items()
        for partition in range(count)
        if any(topic in m.topics for m in members.values())
    }
    given_out = [pair for name in after for pair in sorted(pairs(after[name]))]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == wanted
    for name, owned in after.items():
        assert owned.keys() <= members[name].topics
        assert all(found and list(found) == sorted(found) for found in owned.values())


@given(specs(equal=False))
def test_nobody_has_two_more_than_another_that_could_take_one(
    drawn: tuple[dict[str, MemberSpec], dict[TopicId, int]],
) -> None:
    members, partitions = drawn
    after = assign(members, partitions)
    for one, other in combinations(members, 2):
        for giver, taker in ((one, other), (other, one)):
            if after[giver].keys() & members[taker].topics:
                assert load(after, giver) <= load(after, taker) + 1


@given(specs(equal=False))
def test_a_second_run_moves_nothing(
    drawn: tuple[dict[str, MemberSpec], dict[TopicId, int]],
) -> None:
    members, partitions = drawn
    after = assign(members, partitions)
    assert assign(again(members, after), partitions) == after


@given(specs(equal=True))
def test_equal_subscriptions_move_no_more_than_they_must(
    drawn: tuple[dict[str, MemberSpec], dict[TopicId, int]],
) -> None:
    members, partitions = drawn
    taken: set[tuple[TopicId, int]] = set()
    could_keep = []
    for name in sorted(members):
        mine = {p for p in pairs(members[name].assigned) if p[1] < partitions.get(p[0], 0)} - taken
        taken |= mine
        could_keep.append(len(mine))
    after = assign(members, partitions)
    kept = sum(len(pairs(after[name]) & pairs(members[name].assigned)) for name in members)
    if members:
        least, rest = divmod(sum(partitions.values()), len(members))
        at_most = [least + (place < rest) for place in range(len(members))]
        could_keep.sort(reverse=True)
        assert kept >= sum(min(pair) for pair in zip(could_keep, at_most, strict=True))
        assert {load(after, name) for name in members} <= {least, least + 1}
