"""Reasons for the removal of a member: its own request, an administrator's, another process in its
place, or the end of its session.

Nothing else removes a member (I-179). Silence removes it in the end, whatever became of its
connection (I-137). Time is the coordinator's time at work: during a stall, members' messages wait
to be read (P-146). Its clock may run at another rate: half of a session is certainly too early, and
twice a session with some seconds more is too late.
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
"""Allowance for sweeps, refusals for want of replicas, retries."""
STANDS_STILL_S: Final = 0.4
"""Time between two steps after which a coordinator was not at work."""

Name = tuple[str, str]
"""A group and a member id."""


@dataclass(frozen=True, slots=True)
class Word:
    """A member's message that a coordinator has read."""

    name: Name
    epoch: int | None
    """The epoch of its heartbeat, if it is one."""
    generation: int = 0
    is_refused: bool = False
    """True for a heartbeat that can only be refused: its sender is no longer a member in that
    epoch.
    """


@dataclass(slots=True)
class _Heard:
    at_s: float
    """The time at work, and the part of it in which the coordinator could write."""
    able_s: float
    is_refused: bool = False
    left: bool = False
    to_revoke_s: float = 0.0
    """The time since which this coordinator has asked the member to revoke partitions."""


class Removals:
    """Removals by one coordinator, for as long as it serves without a break."""

    def __init__(
        self, where: str, session_s: float, now_s: float, generations: dict[Name, int]
    ) -> None:
        """The removals. `generations`: each member's newest stream, which a process remembers when
        it serves again.
        """
        self._where = where
        self._generations = generations
        self._session_s = session_s
        self._last_step_s = now_s
        self._work_s = 0.0
        self._able_s = 0.0
        self._heard: dict[Name, _Heard] = {}
        self._commanded: set[str] = set()
        """Groups with members that an administrator has asked to remove."""

    def _of(self, name: Name) -> _Heard:
        found = self._heard.get(name)
        if found is None:
            found = self._heard[name] = _Heard(0.0, 0.0)
        return found

    def on_time(self, now_s: float, *, is_able: bool) -> None:
        """The coordinator has done a step; `is_able`: it could write."""
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
            return  # a message of a replaced stream has no effect (I-177)
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
            return  # the member must join again, and that does not extend its session
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
            f" {silent_s:.3f} s ago, and no member has asked for it",
        )

    def check_silence(self, fold: Fold) -> None:
        """Checks that a member that has been silent for too long is removed."""
        for group_id, group in fold.groups.items():
            for member_id in group.members:
                silent_s = self._able_s - self._of((group_id, member_id)).able_s
                if silent_s > LATE * self._session_s + SLACK_S:
                    raise Violation(
                        "I-137",
                        f"{self._where}: nothing was heard of member {member_id!r} of group"
                        f" {group_id!r} for {silent_s:.1f} s, and it is a member",
                    )
