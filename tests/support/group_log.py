"""A log of one partition of `__consumer_offsets`, decision by decision, as an oracle reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.offline.group_records import GroupRecord
from strandline_proof.sim.oracles.groups.fold import NOTHING, Decision, Step, apply
from strandline_proof.sim.oracles.groups.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_proof.sim.oracles.groups.fold import Place

T = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The id of topic `t`."""


def a(*partitions: int) -> frozenset[Place]:
    """Partitions of topic `t`."""
    return frozenset((T, p) for p in partitions)


def group_epoch(epoch: int | None, group: str = "g") -> GroupRecord:
    return GroupRecord("group_epoch", {"group": group}, _value(epoch, epoch=epoch))


def target_epoch(epoch: int | None, group: str = "g") -> GroupRecord:
    return GroupRecord("target_epoch", {"group": group}, _value(epoch, assignment_epoch=epoch))


def member(member_id: str, *topics: str, instance_id: str | None = None) -> GroupRecord:
    return GroupRecord(
        "member",
        {"group": "g", "member_id": member_id},
        {
            "instance_id": instance_id,
            "rack_id": None,
            "subscribed_topic_names": list(topics or ("t",)),
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "rebalance_timeout": 5000,
        },
    )


def target(member_id: str, *partitions: int) -> GroupRecord:
    key = {"group": "g", "member_id": member_id}
    return GroupRecord("target_assignment", key, {"topics": _topics(partitions)})


def current(
    member_id: str,
    epoch: int,
    assigned: Iterable[int] = (),
    pending: Iterable[int] = (),
    *,
    state: int = 0,
    previous: int = 0,
    since: int | None = None,
) -> GroupRecord:
    """`since`: in which epoch all of it was assigned, if not in this one."""
    value = {
        "member_epoch": epoch,
        "previous_member_epoch": previous,
        "state": state,
        "assigned": _topics(assigned, since),
        "pending_revocation": _topics(pending),
    }
    return GroupRecord("current_assignment", {"group": "g", "member_id": member_id}, value)


def gone(kind: str, member_id: str) -> GroupRecord:
    return GroupRecord(kind, {"group": "g", "member_id": member_id}, None)


def removed(member_id: str) -> tuple[GroupRecord, ...]:
    """Every key of a member, ended."""
    kinds = ("current_assignment", "target_assignment", "member")
    return tuple(gone(kind, member_id) for kind in kinds)


def commit(
    offset: int | None,
    *,
    partition: int = 0,
    metadata: str = "",
    topic_id: str | None = T,
    group: str = "g",
) -> GroupRecord:
    key = {"group": group, "topic": "t", "partition": partition}
    value = None
    if offset is not None:
        value = {
            "offset": offset,
            "leader_epoch": -1,
            "metadata": metadata,
            "commit_timestamp": 0,
            "topic_id": topic_id,
        }
    return GroupRecord("offset_commit", key, value)


def _value(present: Any, **fields: Any) -> dict[str, Any] | None:
    return None if present is None else fields


def _topics(partitions: Iterable[int], since: int | None = None) -> list[dict[str, Any]]:
    topic: dict[str, Any] = {"topic_id": T, "partitions": list(partitions)}
    if since is not None:
        topic["assignment_epochs"] = [since] * len(topic["partitions"])
    return [topic] if topic["partitions"] else []


class ScriptedLog:
    """Every batch takes one offset for each of its records."""

    def __init__(self, *decisions: tuple[GroupRecord, ...]) -> None:
        self.steps: list[Step] = []
        for records in decisions:
            self.write(*records)

    @property
    def end(self) -> int:
        return self.steps[-1].decision.end if self.steps else 0

    def write(self, *records: GroupRecord) -> Step:
        decision = Decision(self.end, self.end + len(records), 1, 0, records)
        before = self.steps[-1].after if self.steps else NOTHING
        self.steps.append(Step(decision, before, apply(before, decision)))
        return self.steps[-1]

    def standing(self, high_watermark: int | None = None, *, leads: bool = True) -> Standing:
        mark = self.end if high_watermark is None else high_watermark
        return Standing(list(self.steps), mark, leads)


JOINED = (
    member("m1"),
    group_epoch(1),
    target("m1", 0, 1),
    target_epoch(1),
    current("m1", 1, (0, 1)),
)
"""The first member has it all."""
SECOND = (
    member("m2"),
    group_epoch(2),
    target("m1", 0),
    target("m2", 1),
    target_epoch(2),
    current("m2", 2, state=2),
)
ASKED = (current("m1", 1, (0,), (1,), state=1),)
"""m1 is to give up partition 1."""
HANDED_OVER = (current("m1", 2, (0,), previous=1, since=1), current("m2", 2, (1,), previous=2))
