"""A shard's groups with classic members and a clock, and a ledger of every call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.classic.commands import (
    PARKED,
    CallDropped,
    ClassicHeartbeat,
    GroupJoined,
    JoinEnded,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    MemberIdGiven,
    SyncEnded,
    SyncGroup,
)
from strandline_broker.core.groups.commands import SessionEnded
from strandline_broker.core.groups.effects import (
    Answer,
    JoinTimer,
    SessionTimer,
    StartTimer,
    StopTimer,
)
from strandline_proto.errors import WireError
from support.groups_rig import GroupsRig

if TYPE_CHECKING:
    from strandline_broker.core.coordination.decision import Decision
    from strandline_broker.core.groups.classic.group import ClassicGroup
    from strandline_broker.core.groups.commands import Command, Reply
    from strandline_broker.core.groups.effects import Effect, TimerKey
    from strandline_broker.core.groups.records.classic_records import GroupMetadataValue

SESSION_MS = 10_000
REBALANCE_MS = 60_000
SUBSCRIPTION = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000000")
"""A ConsumerProtocolSubscription to topic `t`."""


@dataclass(eq=False)
class Call:
    """One JoinGroup or SyncGroup, answered or waiting."""

    number: int
    answers: list[Any] = field(default_factory=list)
    dropped: bool = False

    @property
    def waits(self) -> bool:
        return not self.answers and not self.dropped

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, self
        return self.answers[0]

    @property
    def code(self) -> int:
        """The error code of the answer; 0 without error."""
        return self.answer.code if isinstance(self.answer, WireError) else 0


@dataclass
class ClassicRig(GroupsRig):
    calls: dict[int, Call] = field(default_factory=dict)
    deadlines: dict[TimerKey, int] = field(default_factory=dict)

    def run(self, command: Command) -> Decision[Reply, Effect]:
        decision = super().run(command)
        for effect in decision.effects:
            if isinstance(effect, StartTimer):
                self.deadlines[effect.key] = self.now_ms + effect.ms
            elif isinstance(effect, StopTimer):
                self.deadlines.pop(effect.key, None)
            elif isinstance(effect, Answer):
                self._answered(effect.call, effect.reply)
        return decision

    def _answered(self, number: int, answer: Any) -> None:
        call = self.calls[number]
        assert call.waits, ("I-122", call, answer)
        call.answers.append(answer)

    # Calls

    def send(self, command: JoinGroup | SyncGroup) -> Call:
        call = Call(len(self.calls) + 1)
        self.calls[call.number] = call
        answer = self.run(replace(command, call=call.number)).answer
        if answer is not PARKED:
            self._answered(call.number, answer)
        return call

    def join_group(self, member_id: str = "", *protocols: str, **more: Any) -> Call:
        return self.send(join_command(member_id, *protocols, **more))

    def sync_group(self, member_id: str, generation: int, **more: Any) -> Call:
        assignments = tuple(
            MemberAssignment(each, content) for each, content in more.pop("parts", {}).items()
        )
        fields_: dict[str, Any] = {
            "group_id": "g",
            "generation": generation,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocol": "range",
            "assignments": assignments,
        }
        return self.send(SyncGroup(**(fields_ | more)))

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> int:
        """The error code of a heartbeat."""
        beat = ClassicHeartbeat(
            group_id="g", generation=generation, member_id=member_id, instance_id=instance_id
        )
        return code_of(self.run(beat).answer)

    def leave_group(self, *members: str | tuple[str, str | None]) -> list[int]:
        """The error code of each member."""
        wishes = tuple(
            LeavingMember(m) if isinstance(m, str) else LeavingMember(*m) for m in members
        )
        answer: Any = self.run(LeaveGroup("g", wishes)).answer
        return [code_of(member.error) for member in answer.members]

    def drop(self, call: Call) -> None:
        assert call.waits, call
        call.dropped = True
        self.run(CallDropped("g", call.number))

    # Members

    def new_id(self, *protocols: str, **more: Any) -> str:
        """The id that a new dynamic member gets."""
        answer = self.join_group("", *protocols, **more).answer
        assert isinstance(answer, MemberIdGiven), answer
        return answer.member_id

    def enter(self, *protocols: str, **more: Any) -> tuple[str, Call]:
        """A new dynamic member that has joined, and its waiting call."""
        member_id = self.new_id(*protocols, **more)
        return member_id, self.join_group(member_id, *protocols, **more)

    def stable(self, count: int = 1, **more: Any) -> list[str]:
        """A stable group of so many new members, the leader first; each has its own number as its
        assignment.
        """
        entered = [self.enter(**more) for _ in range(count)]
        self.wait(200)
        return self.settle([member_id for member_id, _ in entered])

    def settle(self, members: list[str]) -> list[str]:
        """All of them sync, in a group in which they have joined; the leader first."""
        group = self.group
        assert group.leader is not None
        members.sort(key=lambda member_id: member_id != group.leader)
        parts = {member_id: b"%d" % n for n, member_id in enumerate(members)}
        for member_id in reversed(members):
            given = parts if member_id == group.leader else {}
            self.sync_group(member_id, group.generation, protocol=group.protocol, parts=given)
        return members

    # Time

    def wait(self, ms: int) -> None:
        """So much time passes, and what is due then happens."""
        end = self.now_ms + ms
        while due := sorted((at, str(key), key) for key, at in self.deadlines.items() if at <= end):
            self.now_ms, _, key = due[0]
            self.fire(key)
        self.now_ms = end

    def fire(self, key: TimerKey) -> None:
        timer = self.timers.pop(key)
        del self.deadlines[key]
        if isinstance(key, SessionTimer):
            self.run(SessionEnded(key.group_id, key.member_id))
        elif isinstance(key, JoinTimer):
            self.run(JoinEnded(key.group_id))
        else:
            self.run(SyncEnded(key.group_id, timer.epoch))

    def fail_over(self) -> None:
        """Another coordinator takes over what is written; the calls that wait end with this one."""
        super().fail_over()
        self.deadlines = {key: self.now_ms + timer.ms for key, timer in self.timers.items()}
        for call in self.calls.values():
            call.dropped = call.dropped or call.waits

    # What is

    @property
    def group(self) -> ClassicGroup:
        group = self.groups.table.classic_group("g")
        assert group is not None
        return group

    @property
    def state(self) -> str:
        return self.group.state.value

    @property
    def record(self) -> GroupMetadataValue:
        return self.groups.table.classic["g"]


def join_command(member_id: str = "", *protocols: str, **more: Any) -> JoinGroup:
    fields_: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": tuple(JoinProtocol(name, SUBSCRIPTION) for name in protocols or ("range",)),
        "client_id": "c",
        "client_host": "/127.0.0.1",
    }
    return JoinGroup(**(fields_ | more))


def code_of(answer: Any) -> int:
    return answer.code if isinstance(answer, WireError) else 0


def joined_of(call: Call) -> GroupJoined:
    assert isinstance(call.answer, GroupJoined), call.answer
    return call.answer
