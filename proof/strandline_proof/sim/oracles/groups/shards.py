"""A shard's memory, compared with its log.

- The shard may serve (I-101).
- Its state is the fold (I-102, and so I-108 and I-130's index).
- Every required timer runs, and no other (I-137).
- Nothing of it is left when its leadership is over (I-110).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.groups.classic.group import GroupState
from strandline_proof.sim.oracles.groups.fold import UNREVOKED
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.ids import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.core.groups.classic.group import ClassicGroup
    from strandline_broker.core.groups.consumer.consumer import ConsumerGroup
    from strandline_broker.core.groups.effects import TimerKey
    from strandline_broker.core.groups.group_table import GroupTable
    from strandline_broker.core.groups.records.offset_records import OffsetCommitValue
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_proof.sim.oracles.groups.fold import Fold, Group, Offset, OffsetKey, Place

NO_CLASSIC_GROUPS: Final[Mapping[str, ClassicGroup]] = MappingProxyType({})
Timer = tuple[str, str, str]
"""A timer's kind, its group and its member."""


def check_may_serve(where: str, *, leads: bool, epochs_agree: bool, mark: int, begun: int) -> None:
    """Checks that the shard may serve. `begun`: the end of its log when the leadership began."""
    if not leads or not epochs_agree:
        raise Violation("I-101", f"{where}: a shard serves, and its leadership is over")
    if mark < begun:
        raise Violation(
            "I-101", f"{where}: a shard serves, loaded up to {begun}, and committed is {mark}"
        )


def check_fold(where: str, fold: Fold, table: GroupTable) -> None:
    found = {name: _group(group) for name, group in table.consumer.items()}
    written = {name: _folded(group) for name, group in fold.groups.items()}
    if found != written:
        raise Violation("I-102", f"{where}: in memory {_difference(found, written)}")
    offsets = dict(_offsets(table))
    if offsets != dict(fold.offsets):
        raise Violation("I-102", f"{where}: in memory {_difference(offsets, dict(fold.offsets))}")
    pending, staged = _pending(table), _staged(fold)
    if pending != staged:
        raise Violation("I-146", f"{where}: pending in memory {_difference(pending, staged)}")
    for name, group in table.consumer.items():
        holders = {(topic_id_text(t), p): m for (t, p), m in group.holders.items()}
        held = {
            place: member
            for member, current in fold.group(name).currents.items()
            for place in current.held
        }
        if holders != held:
            raise Violation("I-130", f"{where}: holders {_difference(holders, held)}")


def _difference(found: Mapping[Any, Any], written: Mapping[Any, Any]) -> str:
    differ = [k for k in {**found, **written} if found.get(k) != written.get(k)]
    first = differ[0]
    return f"{first}: {found.get(first)}, by the log {written.get(first)}"


def _group(group: ConsumerGroup) -> tuple[Any, ...]:
    return (
        group.epoch,
        group.assignment_epoch,
        {
            member_id: (
                member.instance_id,
                frozenset(member.subscribed_topic_names),
                member.subscribed_topic_regex or "",
                member.server_assignor or "",
                member.rack_id or "",
                member.rebalance_timeout_ms,
            )
            for member_id, member in group.members.items()
        },
        {member_id: frozenset(_places(t)) for member_id, t in group.targets.items()},
        {
            member_id: (
                current.epoch,
                current.previous_epoch,
                int(current.state),
                _held(current.assigned),
                _held(current.pending),
            )
            for member_id, current in group.currents.items()
        },
        {regex: frozenset(value.topics) for regex, value in group.regexes.items()},
    )


def _folded(group: Group) -> tuple[Any, ...]:
    return (
        group.epoch,
        group.target_epoch,
        {
            member_id: (
                member.instance_id,
                member.topics,
                member.regex,
                member.assignor,
                member.rack,
                member.rebalance_ms,
            )
            for member_id, member in group.members.items()
        },
        dict(group.targets),
        {
            member_id: (
                current.epoch,
                current.previous,
                current.state,
                dict(current.assigned),
                dict(current.pending),
            )
            for member_id, current in group.currents.items()
        },
        dict(group.regexes),
    )


def _places(sets: Mapping[Any, Iterable[int]]) -> Iterable[Place]:
    return ((topic_id_text(t), p) for t, partitions in sets.items() for p in partitions)


def _held(held: Mapping[Any, Mapping[int, int]]) -> dict[Place, int]:
    return {(topic_id_text(t), p): epoch for t, ps in held.items() for p, epoch in ps.items()}


def _offsets(table: GroupTable) -> Iterable[tuple[OffsetKey, Offset]]:
    from strandline_proof.sim.oracles.groups.fold import OffsetKey

    for group, topics in table.offsets.items():
        for topic, partitions in topics.items():
            for partition, value in partitions.items():
                yield OffsetKey(group, topic, partition), _offset(value)


def _offset(value: OffsetCommitValue) -> Offset:
    from strandline_proof.sim.oracles.groups.fold import Offset

    return Offset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp_ms,
        None if value.topic_id is None else topic_id_text(value.topic_id),
    )


def _pending(table: GroupTable) -> dict[OffsetKey, list[Offset]]:
    """Pending offsets in memory, in order of their records."""
    from strandline_proof.sim.oracles.groups.fold import OffsetKey

    return {
        OffsetKey(group, topic, partition): [
            _offset(each.value) for each in sorted(staged, key=lambda each: each.record_offset)
        ]
        for group in table.pending.groups
        for topic, partition, staged in table.pending.of_group(group)
    }


def _staged(fold: Fold) -> dict[OffsetKey, list[Offset]]:
    found: dict[OffsetKey, list[tuple[int, Offset]]] = {}
    for staged in fold.staged.values():
        for key, each in staged.items():
            found.setdefault(key, []).append((each.at, each.value))
    return {key: [value for _, value in sorted(values)] for key, values in found.items()}


def timers_of(fold: Fold) -> set[Timer]:
    """The timers that must run for a shard in this state."""
    found: set[Timer] = set()
    for name, group in fold.groups.items():
        for member_id in group.members:
            found.add(("session", name, member_id))
            current = group.currents.get(member_id)
            if current is not None and current.state == UNREVOKED:
                found.add(("rebalance", name, member_id))
    return found


def classic_groups(table: GroupTable) -> dict[str, ClassicGroup]:
    """The classic groups as their members know them, or else their records."""
    names = table.classic.keys() | table.live.keys()
    found = ((name, table.classic_group(name)) for name in sorted(names))
    return {name: group for name, group in found if group is not None}


def classic_timers_of(groups: Mapping[str, ClassicGroup]) -> set[Timer]:
    """The timers that must run for classic groups: a session for each member and each id that was
    handed out, one while members join, and one while some have not sent their SyncGroup.
    """
    found: set[Timer] = set()
    for name, group in groups.items():
        found |= {("session", name, member_id) for member_id in (*group.members, *group.pending)}
        if group.state is GroupState.PREPARING:
            found.add(("join", name, ""))
        elif group.unsynced:
            found.add(("sync", name, ""))
    return found


def check_timers(
    where: str,
    fold: Fold,
    running: Iterable[TimerKey],
    classic: Mapping[str, ClassicGroup] = NO_CLASSIC_GROUPS,
) -> None:
    """I-137: exactly the timers run that the state requires."""
    known = {_timer(key) for key in running}
    wanted = timers_of(fold) | classic_timers_of(classic)
    if known != wanted:
        raise Violation(
            "I-137",
            f"{where}: there is no timer for {sorted(wanted - known)}, and one for"
            f" {sorted(known - wanted)}",
        )


def _timer(key: TimerKey) -> Timer:
    kind = type(key).__name__.removesuffix("Timer").lower()
    return kind, key.group_id, getattr(key, "member_id", "")


def check_gone(where: str, host: ShardHost[GroupShard]) -> None:
    """Checks that a shard is gone when its leadership is over."""
    timers = host.context.timers.running(host)
    streams = len(host.application.sessions)
    calls = len(host.application.calls)
    known = [*host.application.groups.group_ids()]
    if timers or known or streams or calls or host.machine.waiting:
        raise Violation(
            "I-110",
            f"{where}: its leadership is over, and it has {len(timers)} timers, groups {known},"
            f" {streams} streams, {calls} parked calls, and {host.machine.waiting} who wait",
        )
