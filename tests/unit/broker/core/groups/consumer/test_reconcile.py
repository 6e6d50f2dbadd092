"""From what a member has to what it is to have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.groups.consumer.current_assignment import (
    Current,
    MemberState,
    from_value,
    to_value,
)
from strandline_broker.core.groups.consumer.reconcile import Goal, reconcile
from strandline_proto.errors import FencedMemberEpoch
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Collection

T = TopicId(b"t" * 16)
U = TopicId(b"u" * 16)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)
HAS = Current(epoch=4, previous_epoch=3, assigned={T: {0: 2, 1: 4}})


def goal(*target: int, taken: Collection[int] = (), epoch: int = 5) -> Goal:
    return Goal(
        epoch=epoch,
        target={T: target} if target else {},
        subscribed={T},
        existing={T, U},
        is_free=lambda _topic_id, partition: partition not in taken,
    )


def owns(*partitions: int) -> dict[TopicId, tuple[int, ...]]:
    return {T: partitions} if partitions else {}


def test_with_all_of_it_nothing_changes() -> None:
    assert reconcile(HAS, goal(0, 1, epoch=4), owned=None) is HAS


def test_a_newer_epoch_alone_is_taken_on() -> None:
    after = reconcile(HAS, goal(0, 1), owned=None)
    assert after == replace(HAS, epoch=5, previous_epoch=4)


def test_what_is_free_is_granted_in_the_new_epoch_and_the_rest_waited_for() -> None:
    after = reconcile(HAS, goal(0, 1, 2, 3, taken={3}), owned=None)
    assert after == Current(5, 4, UNRELEASED, {T: {0: 2, 1: 4, 2: 5}})
    assert reconcile(after, goal(0, 1, 2, 3), owned=None) == Current(
        5, 4, STABLE, {T: {0: 2, 1: 4, 2: 5, 3: 5}}
    )


@pytest.mark.parametrize("owned", [None, owns(0, 1), owns(1)])
def test_what_the_target_lacks_is_given_up_first(owned: dict[TopicId, tuple[int, ...]]) -> None:
    after = reconcile(HAS, goal(0, 2), owned=owned)
    assert after == Current(4, 3, UNREVOKED, {T: {0: 2}}, {T: {1: 4}})
    assert reconcile(after, goal(0, 2), owned=owned) is after


@pytest.mark.parametrize("owned", [owns(0), owns()])
def test_what_is_given_up_is_not_held_and_the_epoch_follows(
    owned: dict[TopicId, tuple[int, ...]],
) -> None:
    waits = Current(4, 3, UNREVOKED, {T: {0: 2}}, {T: {1: 4}})
    assert reconcile(waits, goal(0, 2), owned=owned) == Current(5, 4, STABLE, {T: {0: 2, 2: 5}})
    assert reconcile(HAS, goal(0, 2), owned=owned) == Current(5, 4, STABLE, {T: {0: 2, 2: 5}})


def test_the_target_may_move_on_while_something_is_given_up() -> None:
    waits = Current(4, 3, UNREVOKED, {T: {0: 2}}, {T: {1: 4}})
    assert reconcile(waits, goal(7, epoch=6), owned=owns(0, 1)) is waits
    more = reconcile(waits, goal(7, epoch=6), owned=owns(0))
    assert more == Current(4, 3, UNREVOKED, {}, {T: {0: 2}})
    back = reconcile(waits, goal(0, 1, epoch=6), owned=owns(0))
    assert back == Current(6, 4, STABLE, {T: {0: 2, 1: 6}})


def test_a_deleted_topic_is_given_up_by_nobody() -> None:
    gone = replace(HAS, assigned={T: {0: 2}, TopicId(b"x" * 16): {0: 4}})
    assert reconcile(gone, goal(0, epoch=4), owned=None).assigned == {T: {0: 2}}
    waits = Current(4, 3, UNREVOKED, {T: {0: 2}}, {TopicId(b"x" * 16): {0: 4}})
    assert reconcile(waits, goal(0), owned=None) == Current(5, 4, STABLE, {T: {0: 2}})


def test_a_topic_that_is_not_subscribed_is_outside_the_target() -> None:
    target = replace(goal(0, 1), target={T: (0, 1), U: (0,)})
    assert reconcile(HAS, target, owned=None).assigned == HAS.assigned
    left = reconcile(HAS, replace(goal(0, 1, epoch=4), subscribed={U}), owned=None)
    assert left == Current(4, 3, UNREVOKED, {}, HAS.assigned)


def test_a_state_of_a_later_version_is_left_with_empty_hands() -> None:
    unknown = replace(HAS, state=MemberState.UNKNOWN)
    for owned in (None, owns(0)):
        with pytest.raises(FencedMemberEpoch, match="later version"):
            reconcile(unknown, goal(0, 1), owned=owned)
    assert reconcile(unknown, goal(0, 1), owned={}).state is STABLE


def test_it_is_written_and_read_back() -> None:
    waits = Current(4, 3, UNREVOKED, {T: {1: 2, 0: 4}, U: {3: 1}}, {T: {2: 4}})
    assert from_value(to_value(waits)) == waits
    value = to_value(waits)
    plain = replace(
        value, assigned=tuple(replace(t, assignment_epochs=None) for t in value.assigned)
    )
    assert from_value(plain).assigned == {T: {0: 4, 1: 4}, U: {3: 4}}
    assert from_value(replace(value, state=9)).state is MemberState.UNKNOWN
