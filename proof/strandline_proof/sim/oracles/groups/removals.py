"""Why a member is a member no more: by its own word, an administrator's, because another process
has its place, or because its time is over. Nothing else removes it (I-179), and silence does in the
end, whatever became of its connection (I-137).

Time is what the coordinator was at work for: while it stands still, what members send waits to be
read (P-146). Its clock may run at another rate, so that half of a session is too early for certain,
and twice as much with some seconds more too late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.oracles.groups.admission import LEAVES
from strandline_proof.sim.oracles.groups.fold import ABSENT_EPOCH, UNREVOKED
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from strandline_proof.sim.oracles.groups.fold import Fold, Group, Step

EARLY: Final = 0.5
LATE: Final = 2.0
SLACK_S: Final = 2.5
"""Sweeps, refusals for want of replicas, retries."""
STANDS_STILL_S: Final = 0.4
"""More than that between two steps of a coordinator: it was not at work meanwhile."""

Name = tuple[str, str]
"""A group and a member id."""


@dataclass(frozen=True, slots=True)
class Word:
    """A message of a member that a coordinator has read."""

    name: Name
    epoch: int | None
    """Of its heartbeat, if it has one."""
    generation: int = 0
    is_refused: bool = False
    """A heartbeat that can only be refused: it is no member in that epoch any more."""


@dataclass(slots=True)
class _Heard:
    at_s: float
    """Of the time at work, and of that in which it could decide something."""
    able_s: float
    is_refused: bool = False
    left: bool = False
    to_revoke_s: float = 0.0
    """Since when it has been asked to give partitions up, as far as this coordinator has asked."""


class Removals:
    """Of one coordinator, for as long as it serves without a break."""

    def __init__(
        self, where: str, session_s: float, now_s: float, generations: dict[Name, int]
    ) -> None:
        """`generations`: of each member's newest stream, which its process keeps in mind when it
        serves anew.
        """
        self._where = where
        self._generations = generations
        self._session_s = session_s
        self._last_step_s = now_s
        self._work_s = 0.0
        self._able_s = 0.0
        self._heard: dict[Name, _Heard] = {}
        self._commanded: set[str] = set()
        """Groups of which an administrator has asked to have members removed."""

    def _of(self, name: Name) -> _Heard:
        found = self._heard.get(name)
        if found is None:
            found = self._heard[name] = _Heard(0.0, 0.0)
        return found

    def on_time(self, now_s: float, *, is_able: bool) -> None:
        """It has done a step; `is_able`: it could write."""
        passed_s = now_s - self._last_step_s
        self._last_step_s = now_s
        if passed_s <= STANDS_STILL_S:
            self._work_s += passed_s
            if is_able:
                self._able_s += passed_s

    def on_heard(self, word: Word) -> None:
        heard, epoch = self._of(word.name), word.epoch
        newest = self._generations.get(word.name, 0)
        if word.generation and word.generation < newest:
            return  # of a stream that has been replaced: it counts for nothing (I-177)
        self._generations[word.name] = max(word.generation, newest)
        heard.is_refused = word.is_refused or (heard.is_refused and epoch is None)
        heard.at_s, heard.able_s = self._work_s, self._able_s
        heard.left = epoch == LEAVES or (heard.left and epoch is None)

    def on_removal_asked(self, group_id: str) -> None:
        self._commanded.add(group_id)

    def on_decided(self, step: Step) -> None:
        """A decision of this coordinator."""
        for group_id in step.decision.groups:
            before, after = step.before.group(group_id), step.after.group(group_id)
            for member_id in before.members.keys() - after.members.keys():
                self._check_removed(group_id, member_id, before, after)
                self._heard.pop((group_id, member_id), None)
                self._generations.pop((group_id, member_id), None)
            for member_id, current in after.currents.items():
                was = before.currents.get(member_id)
                if current.state == UNREVOKED and (was is None or was.state != UNREVOKED):
                    self._of((group_id, member_id)).to_revoke_s = self._work_s

    def _check_removed(self, group_id: str, member_id: str, before: Group, after: Group) -> None:
        heard = self._of((group_id, member_id))
        silent_s = self._work_s - heard.at_s
        if heard.left or group_id in self._commanded or silent_s >= EARLY * self._session_s:
            return
        if heard.is_refused:
            return  # it has to join anew, and that ends its session no later
        member, current = before.members[member_id], before.currents.get(member_id)
        if current is None:
            return
        if current.epoch == ABSENT_EPOCH and after.names(member.instance_id):
            return
        if current.state == UNREVOKED:
            waited_s = self._work_s - heard.to_revoke_s
            if waited_s >= EARLY * member.rebalance_ms / 1000:
                return
        raise Violation(
            "I-179",
            f"{self._where}: member {member_id!r} of group {group_id!r} is removed, was heard of"
            f" {silent_s:.3f} s ago, and nobody has asked for it",
        )

    def check_silence(self, fold: Fold) -> None:
        """Who has been silent for too long is no member."""
        for group_id, group in fold.groups.items():
            for member_id in group.members:
                silent_s = self._able_s - self._of((group_id, member_id)).able_s
                if silent_s > LATE * self._session_s + SLACK_S:
                    raise Violation(
                        "I-137",
                        f"{self._where}: nothing was heard of member {member_id!r} of group"
                        f" {group_id!r} for {silent_s:.1f} s, and it is a member",
                    )
