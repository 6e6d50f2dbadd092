"""What members believe to own and were handed, event by event.

Of two that believe to own a partition one is no member any more and has not heard of it (I-132):
the one that has had it, or the one that tells its application only now of what it was granted
before. Nobody is handed records of what it does not own; who takes a partition up goes on where the
group had committed, and gets every record from there in its order (I-106). Nobody commits what was
not handed to it (P-113), and but for an administrator's word no committed offset goes back (I-106),
or for a commit that arrives late, and what its sender commits before it hears of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from strandline_proof.sim.oracles.groups.fold import ABSENT_EPOCH
from strandline_proof.sim.oracles.groups.late_commits import LateCommits
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.workload.group_history import (
    AdminAsked,
    Assigned,
    Crashed,
    Delivered,
    Joined,
    Left,
    Lost,
    Revoked,
)

if TYPE_CHECKING:
    from strandline_proof.sim.oracles.groups.fold import Group, Offset, OffsetKey, Place, Step
    from strandline_proof.sim.workload.group_history import Partition, Told


@dataclass(slots=True)
class _Owned:
    """One partition in one member's hands."""

    next: int | None
    """What it is to be handed next; None: nobody knows, until it was handed something."""
    is_over: bool = False
    """The group has removed the member since, which has not heard of it."""


@dataclass(slots=True)
class _Life:
    """One life of one actor."""

    group: str = ""
    member_id: str = ""
    owned: dict[Partition, _Owned] = field(default_factory=dict)
    handed: dict[Partition, int] = field(default_factory=dict)
    """The end of what it was handed since it owns it, or had to begin at."""
    handed_ever: dict[Partition, int] = field(default_factory=dict)
    """The same, whichever ownership it was of."""

    def hand(self, partition: Partition, end: int) -> None:
        self.handed_ever[partition] = max(end, self.handed_ever.get(partition, 0))


class Known(Protocol):
    """What is committed now, by the logs."""

    def group(self, group_id: str) -> Group: ...

    def is_judged(self, group_id: str) -> bool:
        """Whether nothing of the group may be missing."""

    def place(self, partition: Partition) -> Place | None: ...

    def offset(self, group_id: str, partition: Partition) -> int | None: ...

    def may_skip(self, partition: Partition, begin: int, end: int) -> bool:
        """Whether the records from one offset to the other may be missing, or come again."""


class Positions:
    def __init__(self, known: Known) -> None:
        self._known = known
        self._lives: dict[str, _Life] = {}
        self._by_member: dict[str, str] = {}
        self._ended: dict[str, int] = {}
        """By member id: whose epoch is not above this is no member any more."""
        self._altered: set[tuple[str, str]] = set()
        """What administrators wish to be committed: the group, and what the offset says."""
        self._late = LateCommits()

    def on_told(self, told: Told) -> None:
        life, event = self._lives.setdefault(told.who, _Life()), told.event
        self._late.on_told(told)
        match event:
            case Joined():
                self._on_joined(told.who, life, event)
            case Assigned():
                self._on_assigned(told.who, life, event)
            case Revoked() | Lost():
                life.owned = {p: o for p, o in life.owned.items() if p not in event.partitions}
            case Left() | Crashed():
                life.owned.clear()
            case Delivered():
                self._on_delivered(told.who, life, event)
            case AdminAsked():
                values = filter(None, event.offsets.values())
                self._altered |= {(event.group, value.metadata) for value in values}
            case _:
                pass

    def on_over(self, member_id: str) -> None:
        """It is no member any more, or is told so, whenever its application hears of that."""
        if (who := self._by_member.get(member_id)) is not None:
            for owned in self._lives[who].owned.values():
                owned.is_over = True

    def _on_joined(self, who: str, life: _Life, event: Joined) -> None:
        if life.member_id != event.member_id:
            life.owned.clear()
        life.group, life.member_id = event.group, event.member_id
        self._by_member[event.member_id] = who

    def _on_assigned(self, who: str, life: _Life, event: Assigned) -> None:
        known = self._known
        group, is_judged = known.group(life.group), known.is_judged(life.group)
        own = group.currents.get(life.member_id)
        is_over = 0 < event.member_epoch <= self._ended.get(life.member_id, 0)
        for partition in sorted(event.partitions):
            if is_judged and not is_over:
                self._check_alone(who, life, partition)
            life.handed.pop(partition, None)
            begin: int | None = None
            if is_judged and own is not None and known.place(partition) in own.held:
                begin = known.offset(life.group, partition) or 0
                life.handed[partition] = begin
                life.hand(partition, begin)
            life.owned[partition] = _Owned(begin, is_over)

    def _check_alone(self, who: str, life: _Life, partition: Partition) -> None:
        for name, other in self._lives.items():
            owned = other.owned.get(partition)
            if other is life or other.group != life.group or owned is None or owned.is_over:
                continue
            raise Violation("I-132", f"{who} owns {partition} from now on, and so does {name}")

    def _on_delivered(self, who: str, life: _Life, event: Delivered) -> None:
        partition, offset = event.partition, event.offset
        owned = life.owned.get(partition)
        if owned is None:
            raise Violation("I-132", f"{who} is handed offset {offset} of {partition}, not its own")
        low, high = sorted((offset, offset if owned.next is None else owned.next))
        if low != high and not self._known.may_skip(partition, low, high):
            raise Violation(
                "I-106",
                f"{who} is handed offset {offset} of {partition}, and {owned.next} is next",
            )
        owned.next = offset + 1
        life.hand(partition, owned.next)
        if partition in life.handed:
            life.handed[partition] = max(life.handed[partition], owned.next)

    def check_commit(
        self, member_id: str, partition: Partition, offset: int, *, is_deposed: bool = False
    ) -> None:
        """A member asks to have this committed (P-113). It need not have been handed what is not
        there any more: then its position is where the log begins. A coordinator that has been
        replaced (`is_deposed`) may read only now what an earlier ownership had asked of it: nothing
        comes of that (I-105), and it was handed to the member all the same.
        """
        who = self._by_member.get(member_id)
        life = None if who is None else self._lives[who]
        handed = None if life is None else life.handed.get(partition)
        if life is not None and handed is not None and is_deposed:
            handed = max(handed, life.handed_ever.get(partition, 0))
        if handed is None or offset <= handed:
            return
        if not self._known.may_skip(partition, handed, offset):
            raise Violation(
                "I-106",
                f"{who} has {offset} of {partition} committed, and was handed all below {handed}",
            )

    def check_step(self, step: Step) -> None:
        """A decision is committed."""
        for group_id in step.decision.groups:
            was, now = step.before.group(group_id), step.after.group(group_id)
            for member_id in was.members.keys() - now.members.keys():
                self._ended[member_id] = was.epoch
                self.on_over(member_id)
            for member_id, current in now.currents.items():
                if current.epoch == ABSENT_EPOCH:  # a static member that does not poll has left
                    self.on_over(member_id)
        for key, after in step.after.offsets.items():
            if (before := step.before.offsets.get(key)) is not after:
                self._check_offset(key, before, after)

    def _check_offset(self, key: OffsetKey, before: Offset | None, after: Offset) -> None:
        lowest = self._late.lowest(before, after)
        if lowest is None or after.offset >= lowest or (key.group, after.metadata) in self._altered:
            return
        if not self._known.may_skip((key.topic, key.partition), after.offset, lowest):
            raise Violation(
                "I-106",
                f"group {key.group!r}: the committed offset of {key.topic}/{key.partition} goes"
                f" back from {lowest} to {after.offset}",
            )
