"""A sound history of decisions passes, and each broken one is named by its invariant."""

from __future__ import annotations

import pytest

from strandline_broker.offline.group_records import GroupRecord
from strandline_proof.sim.oracles.groups.decisions import check_step, coordinating_partition
from strandline_proof.sim.oracles.violation import Violation
from support.group_log import (
    ASKED,
    HANDED_OVER,
    JOINED,
    SECOND,
    ScriptedLog,
    T,
    commit,
    current,
    gone,
    group_epoch,
    member,
    removed,
    target,
    target_epoch,
)

Records = tuple[GroupRecord, ...]
STATIC = (
    member("s1", instance_id="i"),
    group_epoch(1),
    target("s1", 0, 1),
    target_epoch(1),
    current("s1", 1, (0, 1)),
)
AWAY = (current("s1", -2, (0, 1), previous=1),)
BACK = (
    *removed("s1"),
    member("s2", instance_id="i"),
    target("s2", 0, 1),
    current("s2", 0, (0, 1)),
    current("s2", 1, (0, 1)),
)


def check(*decisions: Records) -> None:
    for step in ScriptedLog(*decisions).steps:
        check_step(step, 0, 1, {"t": {T}})


@pytest.mark.parametrize(
    "decisions",
    [
        (JOINED, SECOND, ASKED, HANDED_OVER, (commit(5),)),
        (
            JOINED,
            (*removed("m1"), group_epoch(2), target_epoch(2)),
            (target_epoch(None), group_epoch(None)),
            JOINED,
        ),
        (STATIC, AWAY, BACK),
    ],
)
def test_a_sound_history_passes(decisions: tuple[Records, ...]) -> None:
    check(*decisions)


LEFT_WITHOUT_EPOCH = removed("m2")
BROKEN = {
    "G not raised on leave": ("I-128", (JOINED, SECOND, LEFT_WITHOUT_EPOCH)),
    "a subscription changes in its epoch": ("I-128", (JOINED, (member("m1", "t", "u"),))),
    "the target's epoch stands before a target": (
        "I-128",
        (JOINED, (SECOND[0], SECOND[1], SECOND[4], SECOND[2], SECOND[3], SECOND[5])),
    ),
    "a target without its epoch": ("I-128", (JOINED, (target("m1", 0),))),
    "a decision in two batches": ("I-107", (JOINED, SECOND[:-1])),
    "an assignment above the group": ("I-127", (JOINED, (target_epoch(2),))),
    "the group's epoch falls": ("I-127", (JOINED, SECOND, (group_epoch(1),))),
    "a member above the assignment": ("I-127", (JOINED, (current("m1", 2, (0, 1)),))),
    "a member's epoch falls": ("I-127", (JOINED, SECOND, ASKED, HANDED_OVER, ASKED)),
    "two targets have one partition": (
        "I-129",
        (JOINED, (*SECOND[:2], target("m2", 1), *SECOND[4:])),
    ),
    "more than the target": (
        "I-129",
        (JOINED, SECOND, (current("m2", 2, (2,), state=2),)),
    ),
    "two have one partition": ("I-130", (JOINED, SECOND, (current("m2", 2, (1,)),))),
    "an epoch with a partition too many": ("I-133", (JOINED, SECOND, (current("m1", 2, (0, 1)),))),
    "an epoch before all is given up": (
        "I-133",
        (JOINED, SECOND, (current("m1", 2, (0,), (1,)),)),
    ),
    "who leaves for a while has nothing left": ("I-126", (STATIC, (current("s1", -2),))),
    "a key outlives its member": (
        "I-138",
        (JOINED, (gone("member", "m1"), gone("current_assignment", "m1"), group_epoch(2))),
    ),
    "an offset without the topic's id": ("I-145", ((commit(1, topic_id=None),),)),
    "an offset of another topic": ("I-145", ((commit(1, topic_id="B" * 22),),)),
    "an offset below 0": ("I-143", ((commit(-5),),)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_decision_is_named(name: str) -> None:
    rule, decisions = BROKEN[name]
    check(*decisions[:-1])
    with pytest.raises(Violation) as raised:
        check(*decisions)
    assert raised.value.invariant == rule


def test_a_group_belongs_in_one_partition() -> None:
    (step,) = ScriptedLog(JOINED).steps
    at = coordinating_partition("g", 7)
    check_step(step, at, 7, {})
    with pytest.raises(Violation, match="I-101"):
        check_step(step, (at + 1) % 7, 7, {})


@pytest.mark.parametrize(
    ("group", "partitions", "at"),
    [("group-1", 3, 2), ("tx-a", 3, 0), ("tx-b", 3, 1), ("polygenelubricants", 3, 0)],
)
def test_the_partition_is_javas(group: str, partitions: int, at: int) -> None:
    assert coordinating_partition(group, partitions) == at


def test_an_emoji_has_two_units() -> None:
    """As Java has it: the surrogates D83C and DF88."""
    assert coordinating_partition("🎈", 50) == (0xD83C * 31 + 0xDF88) % 50
