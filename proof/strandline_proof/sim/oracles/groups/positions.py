"""Members' ownership and records, event by event.

If two members believe that they own a partition, one is no longer a member and has not learned of
it (I-132). That one either owned the partition before, or hands its application an earlier grant
only now. A member receives records only of its own partitions. A new owner continues from the
group's committed offset, and receives every record from there in order (I-106). A member commits
only what it was handed (P-113). A committed offset moves back only by an administrator's command
(I-106), by a commit that arrives late, or by its sender's commits before the sender learns of that.
In a classic group, a generation ends the ownership of those before it.
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
    """One partition that one member owns."""

    next: int | None
    """The next record to be handed over; None if unknown, until one was handed over."""
    is_over: bool = False
    """True if the group has removed the member, which has not learned of it."""


@dataclass(slots=True)
class _Life:
    """One life of one actor."""

    group: str = ""
    member_id: str = ""
    owned: dict[Partition, _Owned] = field(default_factory=dict)
    handed: dict[Partition, int] = field(default_factory=dict)
    """The end of what it was handed since it owns the partition, or the required beginning."""
    handed_ever: dict[Partition, int] = field(default_factory=dict)
    """The end of what it was handed in any ownership."""

    def hand(self, partition: Partition, end: int) -> None:
        self.handed_ever[partition] = max(end, self.handed_ever.get(partition, 0))


class Known(Protocol):
    """The committed state, by the logs."""

    def group(self, group_id: str) -> Group: ...

    def is_judged(self, group_id: str) -> bool:
        """True if no committed state of the group may be missing."""

    def place(self, partition: Partition) -> Place | None: ...

    def offset(self, group_id: str, partition: Partition) -> int | None: ...

    def may_skip(self, partition: Partition, begin: int, end: int) -> bool:
        """True if the records from one offset to the other may be missing, or come again."""


class Positions:
    def __init__(self, known: Known) -> None:
        self._known = known
        self._lives: dict[str, _Life] = {}
        self._by_member: dict[str, str] = {}
        self._ended: dict[str, int] = {}
        """By member id, the epoch up to which it is no longer a member."""
        self._generations: dict[str, int] = {}
        """The last generation of each classic group, by its records."""
        self._altered: set[tuple[str, str]] = set()
        """Offsets that administrators want committed: the group, and the offset's metadata."""
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
        """The member was removed, or an answer says so, whenever its application learns of that."""
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
        is_over |= event.member_epoch < self._generations.get(life.group, -1)
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
        """Judges a member's request to commit (P-113). Deleted records need not have been handed
        over: the position is then the log's beginning. A deposed coordinator (`is_deposed`) may
        read only now a request of an earlier ownership. That request has no effect (I-105), and its
        records were handed over all the same.
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
        """Judges a committed decision."""
        for record in step.decision.records:
            if record.kind == "group_metadata" and record.value is not None:
                self._on_generation(record.key["group"], record.value["generation"])
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

    def _on_generation(self, group_id: str, generation: int) -> None:
        """A classic group has a new generation. A member that joined it gave its partitions up
        before; one that still owns some has missed it.
        """
        if generation <= self._generations.get(group_id, -1):
            return
        self._generations[group_id] = generation
        for life in self._lives.values():
            if life.group == group_id:
                for owned in life.owned.values():
                    owned.is_over = True

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
