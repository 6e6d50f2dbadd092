"""Soundness of one decision of a coordinator, judged only by its records and the state before it.

- Epochs rise and keep their order (I-127, I-128).
- A target is written whole, its epoch last.
- No member is assigned a partition outside its target, or one that another member still owns
(I-129, I-130).
- A member reaches the assignment's epoch with nothing left to revoke (I-133).
- A member that leaves for a while keeps its place (I-126).
- A removed member leaves no key behind (I-138), and offsets name their topic's id (I-145).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.oracles.groups.fold import (
    ABSENT_EPOCH,
    EMPTY,
    Current,
    Group,
    OffsetKey,
)
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from strandline_proof.sim.oracles.groups.fold import Place, Step

_SIGN: Final = 1 << 31


def coordinating_partition(group_id: str, partitions: int) -> int:
    """The partition by Java's hash over UTF-16 units, from Kafka's words, not Strandline's code."""
    units = memoryview(group_id.encode("utf-16-le")).cast("H")
    code = 0
    for unit in units:
        code = (code * 31 + unit) % (2 * _SIGN)
    signed = code - 2 * _SIGN if code >= _SIGN else code
    return 0 if signed == -_SIGN else abs(signed) % partitions


def check_step(
    step: Step, partition: int, partitions: int, topic_ids: Mapping[str, Collection[str]]
) -> None:
    """Judges a decision in partition `partition` of so many; `topic_ids` are all ids that a topic
    of a name ever had, as text.
    """
    decision = step.decision
    for group_id in decision.groups:
        where = f"group {group_id!r}, batch at offset {decision.base}"
        at = coordinating_partition(group_id, partitions)
        if at != partition:
            raise Violation("I-101", f"{where}: it is in partition {partition}, not in {at}")
        before, after = step.before.group(group_id), step.after.group(group_id)
        if after is not before and after != EMPTY:
            _check_group(before, after, where)
            _check_target_is_last(step, group_id, where)
    _check_offsets(step, topic_ids)


def _check_group(before: Group, after: Group, where: str) -> None:
    _check_epochs(before, after, where)
    _check_target(before, after, where)
    _check_keys(after, where)
    places: dict[Place, str] = {}
    for member_id, current in sorted(after.currents.items()):
        for place in sorted(current.held):
            other = places.setdefault(place, member_id)
            if other != member_id:
                raise Violation("I-130", f"{where}: {other} and {member_id} have {place}")
        was = before.currents.get(_former(before, after, member_id))
        if was != current:
            _check_current(was or Current(), current, after, member_id, where)


def _former(before: Group, after: Group, member_id: str) -> str:
    """The member whose place a static member has taken; otherwise itself."""
    instance_id = after.members[member_id].instance_id
    former = before.names(instance_id)
    taken = former is not None and former not in after.members
    return former if taken and former is not None else member_id


def _identities(group: Group) -> dict[str, str]:
    """Members by the name under which they return."""
    return {
        member_id if member.instance_id is None else f"static {member.instance_id}": member_id
        for member_id, member in group.members.items()
    }


def _check_epochs(before: Group, after: Group, where: str) -> None:
    if after.epoch < before.epoch or after.target_epoch < before.target_epoch:
        raise Violation(
            "I-127",
            f"{where}: group epoch {before.epoch} to {after.epoch}, the assignment's"
            f" {before.target_epoch} to {after.target_epoch}",
        )
    if after.target_epoch > after.epoch:
        raise Violation(
            "I-127", f"{where}: assignment epoch {after.target_epoch} in group epoch {after.epoch}"
        )
    was = {name: before.members[m].wishes for name, m in _identities(before).items()}
    now = {name: after.members[m].wishes for name, m in _identities(after).items()}
    if was != now and after.epoch == before.epoch:
        changed = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
        raise Violation(
            "I-128", f"{where}: {', '.join(changed)} changed in group epoch {after.epoch}"
        )


def _check_target(before: Group, after: Group, where: str) -> None:
    was = {name: before.targets.get(m, frozenset()) for name, m in _identities(before).items()}
    now = {name: after.targets.get(m, frozenset()) for name, m in _identities(after).items()}
    moved = sorted(n for n in now if now[n] != was.get(n, frozenset()))
    if moved and (after.target_epoch == before.target_epoch or after.target_epoch != after.epoch):
        raise Violation(
            "I-128",
            f"{where}: another target for {', '.join(moved)} in assignment epoch"
            f" {after.target_epoch} (before {before.target_epoch}) of group epoch {after.epoch}",
        )
    given: dict[Place, str] = {}
    for member_id, target in sorted(after.targets.items()):
        for place in sorted(target):
            other = given.setdefault(place, member_id)
            if other != member_id:
                raise Violation("I-129", f"{where}: {place} is to be {other}'s and {member_id}'s")


def _check_keys(after: Group, where: str) -> None:
    for table, what in ((after.currents, "assignment"), (after.targets, "target")):
        if left := sorted(table.keys() - after.members.keys()):
            raise Violation("I-138", f"{where}: the {what} of {left[0]} outlives it")
    if new := sorted(after.members.keys() - after.currents.keys()):
        raise Violation("I-107", f"{where}: {new[0]} is a member, and nothing says what it has")


def _check_current(was: Current, now: Current, after: Group, member_id: str, where: str) -> None:
    who = f"{where}: {member_id}"
    if now.epoch == ABSENT_EPOCH:
        if was.epoch != ABSENT_EPOCH and set(now.assigned) != set(was.assigned):
            raise Violation(
                "I-126", f"{who} left for a while with {_told(was)} and keeps {_told(now)}"
            )
        return
    if now.epoch > after.target_epoch:
        raise Violation("I-127", f"{who} is in epoch {now.epoch} of {after.target_epoch}")
    if was.epoch > now.epoch:
        raise Violation("I-127", f"{who} falls from epoch {was.epoch} to {now.epoch}")
    target = after.targets.get(member_id, frozenset())
    if now.epoch > was.epoch and not set(now.assigned) <= target:
        raise Violation("I-133", f"{who} reaches epoch {now.epoch} with {_told(now)} of {target}")
    if now.epoch > was.epoch and now.pending:
        raise Violation("I-133", f"{who} reaches epoch {now.epoch}, with {now.pending} to give up")
    granted = set(now.assigned) - set(was.assigned)
    if not granted <= target:
        raise Violation("I-129", f"{who} is given {sorted(granted - target)}, not in its target")


def _told(current: Current) -> list[Place]:
    return sorted(current.assigned)


def _check_target_is_last(step: Step, group_id: str, where: str) -> None:
    ended = False
    for record in step.decision.records:
        if record.key.get("group") != group_id or record.value is None:
            continue
        if record.kind == "target_assignment" and ended:
            raise Violation("I-128", f"{where}: a member's target stands behind its epoch")
        ended = ended or record.kind == "target_epoch"


def _check_offsets(step: Step, topic_ids: Mapping[str, Collection[str]]) -> None:
    for record in step.decision.records:
        if record.kind != "offset_commit" or record.value is None:
            continue
        key = OffsetKey(*_named(record.key))
        where = f"group {key.group!r}, batch at offset {step.decision.base}"
        topic_id = record.value.get("topic_id")
        if topic_id is None:
            raise Violation("I-145", f"{where}: an offset of {key.topic!r} without its id")
        if record.value["offset"] < 0:
            raise Violation("I-143", f"{where}: offset {record.value['offset']} is committed")
        if topic_id not in topic_ids.get(key.topic, ()):
            raise Violation("I-145", f"{where}: {key.topic!r} never had the id {topic_id}")


def _named(key: Mapping[str, Any]) -> tuple[str, str, int]:
    return key["group"], key["topic"], key["partition"]
