"""The steps of every change of a classic group: a rebalance begins, members join, members sync.

A join phase ends when every member of the generation before has joined again, and no handed-out id
is awaited, or when its time is over (I-117). Its end begins a generation (I-116). The members then
wait for the assignment, which their leader brings. Each phase has a timer, so that no group waits
for a member for ever (I-121).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.classic.commands import GroupJoined, JoinedMember
from strandline_broker.core.groups.classic.group import GroupState
from strandline_broker.core.groups.effects import (
    Answer,
    JoinTimer,
    Rebalances,
    SessionTimer,
    StartTimer,
    StopTimer,
    SyncTimer,
)
from strandline_broker.core.groups.records.classic_records import GroupMetadataKey, write_value
from strandline_proto.errors import RebalanceInProgress, UnknownMemberId

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import CallReply
    from strandline_broker.core.groups.classic.group import ClassicGroup, Member
    from strandline_broker.core.groups.context import Context
    from strandline_broker.core.groups.effects import Effect
    from strandline_broker.core.groups.records.classic_records import GroupMetadataValue
    from strandline_proto.errors import WireError


BATCH_OVERHEAD_BYTES: Final = 128
"""More than the headers of a batch and of its one record."""
NOBODY_JOINED_MS: Final = 1_000
"""Shortest time between two ends of a join phase that no member has joined."""
SHOWN_MAX: Final = 400
"""Limit of characters for the reason of a rebalance."""


class Change:
    """A classic group during one decision, with the records and effects of the decision so far."""

    def __init__(self, group: ClassicGroup, context: Context) -> None:
        self.group = group
        self.context = context
        self.records: list[Record] = []
        self.effects: list[Effect] = []

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def enter(self, state: GroupState) -> None:
        self.group.state = state
        self.group.changed_at_ms = self.context.inputs.wall_ms

    def enter_stable(self) -> None:
        """The group is stable with its record, which names the time of the state before, as
        Kafka's does.
        """
        self.group.state = GroupState.STABLE

    def write(self, value: GroupMetadataValue) -> None:
        self.records.append(Record(GroupMetadataKey(self.group_id), value))

    def start_session(self, member: Member) -> None:
        """The member has its full time again. One that is new cannot send heartbeats: its time is
        that of the wait for its first answer.
        """
        new_ms = self.context.settings.classic_new_member_timeout_ms
        ms = new_ms if member.is_new else member.session_timeout_ms
        self.effects.append(StartTimer(SessionTimer(self.group_id, member.member_id), ms))

    def end_session(self, member: Member) -> None:
        """The session of the member ends as soon as that can be written."""
        self.effects.append(StartTimer(SessionTimer(self.group_id, member.member_id), 0))

    def stop_session(self, member_id: str) -> None:
        self.effects.append(StopTimer(SessionTimer(self.group_id, member_id)))

    def park_join(self, member: Member, call: int) -> None:
        """The member has joined the next generation. Its call replaces one that still waits, which
        its client has given up.
        """
        self.answer_join(member, self._repeated(member))
        member.join_call = call
        self.group.calls[call] = member.member_id
        self.group.joined.add(member.member_id)

    def park_sync(self, member: Member, call: int) -> None:
        """The call replaces one that still waits, which its client has given up."""
        self.answer_sync(member, self._repeated(member))
        member.sync_call = call
        self.group.calls[call] = member.member_id

    def answer_join(self, member: Member, reply: CallReply) -> None:
        call, member.join_call = member.join_call, None
        self._answer(call, reply)

    def answer_sync(self, member: Member, reply: CallReply) -> None:
        call, member.sync_call = member.sync_call, None
        self._answer(call, reply)

    def _answer(self, call: int | None, reply: CallReply) -> None:
        if call is not None:
            self.group.calls.pop(call, None)
            self.effects.append(Answer(self.group_id, call, reply))

    def _repeated(self, member: Member) -> WireError:
        return RebalanceInProgress(
            f"member {member.member_id!r} of group {self.group_id!r} has sent the call again"
        )


def rebalance(change: Change, why: str) -> None:
    """Begin a join phase, or end the present one if that is possible now."""
    if change.group.state is GroupState.PREPARING:
        maybe_complete(change)
    else:
        prepare(change, why)


def prepare(change: Change, why: str) -> None:
    """Begin a join phase. The first one of an empty group takes a while, because members that start
    together then share one generation.
    """
    group = change.group
    assert group.state is not GroupState.PREPARING, group
    shown = why if len(why) <= SHOWN_MAX else f"{why[:SHOWN_MAX]}..."
    change.effects.append(Rebalances(group.group_id, group.generation, shown))
    for member in group.members.values():
        member.assignment = b""
        if member.sync_call is not None:
            change.answer_sync(member, rebalances(group))
            change.start_session(member)
    group.unsynced.clear()
    change.effects.append(StopTimer(SyncTimer(group.group_id)))
    is_first = group.state is GroupState.EMPTY
    change.enter(GroupState.PREPARING)
    if not is_first:
        group.initial_rest_ms = None
        if not maybe_complete(change):
            _wait(change, group.rebalance_timeout_ms)
        return
    delay_ms = change.context.settings.classic_initial_rebalance_delay_ms
    group.initial_rest_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    group.has_grown = False
    _wait(change, delay_ms)


def maybe_complete(change: Change) -> bool:
    """End the join phase if nothing is awaited. The first one of a group ends with its timer, or
    with its last member.
    """
    group = change.group
    if group.state is not GroupState.PREPARING:
        return False
    if group.members and (group.initial_rest_ms is not None or not group.all_joined()):
        return False
    complete(change)
    return True


def join_ended(change: Change) -> None:
    """The time of the join phase is over; that of a first one is prolonged while members come."""
    group = change.group
    if group.state is not GroupState.PREPARING:
        return
    rest_ms = group.initial_rest_ms or 0
    if group.has_grown and rest_ms > 0:
        delay_ms = min(change.context.settings.classic_initial_rebalance_delay_ms, rest_ms)
        group.initial_rest_ms = rest_ms - delay_ms
        group.has_grown = False
        _wait(change, delay_ms)
        return
    complete(change)


def complete(change: Change) -> None:
    """End the join phase. Dynamic members that have not joined leave. Static ones stay with their
    old subscription.
    """
    group = change.group
    for member in list(group.members.values()):
        if member.member_id not in group.joined and member.instance_id is None:
            remove(change, member)
    if group.members and not group.elect():
        _wait(change, max(group.rebalance_timeout_ms, NOBODY_JOINED_MS))
        return
    change.effects.append(StopTimer(JoinTimer(group.group_id)))
    group.generation += 1
    if not group.members:
        group.protocol = group.leader = None
        change.enter(GroupState.EMPTY)
        change.write(group.value())
        return
    group.protocol = group.vote()
    change.enter(GroupState.COMPLETING)
    group.unsynced = dict.fromkeys(group.members)
    timer = StartTimer(SyncTimer(group.group_id), group.rebalance_timeout_ms, group.generation)
    change.effects.append(timer)
    for member in group.members.values():
        member.is_new = False
        if member.member_id in group.joined:
            change.start_session(member)
        member.knows_its_id = True
        change.answer_join(member, joined(group, member))
    group.joined.clear()


def sync_ended(change: Change, generation: int) -> None:
    """Remove the members of the generation that have not sent their SyncGroup."""
    group = change.group
    in_time = group.state in (GroupState.EMPTY, GroupState.PREPARING)
    if in_time or group.generation != generation or not group.unsynced:
        return
    late = list(group.unsynced)
    for member_id in late:
        remove(change, group.members[member_id])
    prepare(change, f"no SyncGroup came in time from: {', '.join(late)}")


def remove(change: Change, member: Member) -> None:
    """Remove a member, and answer the calls of it that wait."""
    gone = UnknownMemberId(
        f"member {member.member_id!r} has been removed from group {change.group_id!r}: join again"
        " without a member id"
    )
    change.answer_join(member, gone)
    change.answer_sync(member, gone)
    change.stop_session(member.member_id)
    change.group.remove(member.member_id)


def joined(group: ClassicGroup, member: Member) -> GroupJoined:
    """The answer to a member that is in the generation; its leader gets all members."""
    protocol = group.protocol
    is_leader = group.leader == member.member_id
    return GroupJoined(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=protocol or "",
        leader=group.leader or "",
        member_id=member.member_id,
        members=tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(protocol))
            for each in group.members.values()
        )
        if is_leader
        else (),
    )


def record_bytes(group_id: str, value: GroupMetadataValue) -> int:
    """An upper bound for a batch with this one record."""
    return BATCH_OVERHEAD_BYTES + len(group_id.encode()) + len(write_value(value))


def rebalances(group: ClassicGroup) -> WireError:
    return RebalanceInProgress(f"group {group.group_id!r} rebalances: join again")


def _wait(change: Change, ms: int) -> None:
    change.effects.append(StartTimer(JoinTimer(change.group_id), ms))
