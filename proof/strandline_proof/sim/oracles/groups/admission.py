"""The right to commit, and the membership of a heartbeat's sender: the tables of the protocol,
applied to the fold of a log.

The oracle computes the only right answer. Where an earlier epoch counts because the coordinator had
sent it, both answers are right, as sent messages are not in the log (I-135).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.oracles.groups.fold import ABSENT_EPOCH

if TYPE_CHECKING:
    from collections.abc import Collection

    from strandline_proof.sim.oracles.groups.fold import Fold, Group, Place

UNKNOWN_MEMBER: Final = 25
FENCED_INSTANCE: Final = 82
FENCED_EPOCH: Final = 110
STALE_EPOCH: Final = 113
VERDICTS: Final = frozenset({UNKNOWN_MEMBER, FENCED_INSTANCE, FENCED_EPOCH, STALE_EPOCH})
"""Refusals because the sender is no member, or not in that epoch. Other refusals have other
reasons.
"""
JOINS: Final = 0
LEAVES: Final = -1


@dataclass(frozen=True, slots=True)
class Who:
    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None

    def __str__(self) -> str:
        static = "" if self.instance_id is None else f" (instance {self.instance_id})"
        return f"member {self.member_id!r}{static} of group {self.group_id!r} in epoch {self.epoch}"


def commit_refusal(fold: Fold, who: Who, place: Place) -> int | None:
    """The right refusal of a commit; None if the commit of that partition must be
    accepted (I-144).
    """
    group = fold.group(who.group_id)
    if who.epoch < 0 and not who.member_id and not group.members:
        return None
    if (error := _unknown(group, who)) is not None:
        return error
    current = group.currents[who.member_id]
    if who.epoch == current.epoch:
        return None
    if who.epoch > current.epoch:
        return STALE_EPOCH
    for held in (current.assigned, current.pending):
        if held.get(place, who.epoch + 1) <= who.epoch:
            return None
    return STALE_EPOCH


def _unknown(group: Group, who: Who) -> int | None:
    owner = group.names(who.instance_id)
    if owner is not None and owner != who.member_id:
        return FENCED_INSTANCE
    return None if who.member_id in group.currents else UNKNOWN_MEMBER


def beat_refusals(
    fold: Fold, who: Who, owned: Collection[Place] | None, *, crossed: bool, told: Collection[int]
) -> frozenset[int | None]:
    """The right answers to a heartbeat, of VERDICTS; None among them: it may be accepted.
    `crossed`: the member had not seen the last push on its stream; `told`: the epochs that this
    coordinator has sent to it.
    """
    group = fold.group(who.group_id)
    if who.epoch == JOINS or not group.members:
        return frozenset({None, *VERDICTS})  # other rules decide
    if (error := _unknown(group, who)) is not None:
        return frozenset({error, UNKNOWN_MEMBER})
    current = group.currents[who.member_id]
    if who.epoch in (LEAVES, ABSENT_EPOCH) or crossed or who.epoch == current.epoch:
        return frozenset({None})
    if who.epoch > current.epoch:
        return frozenset({FENCED_EPOCH})
    if told and who.epoch == max(told):
        return frozenset({None})  # the member cannot know newer epochs
    if owned is None or not set(owned) <= set(current.assigned):
        return frozenset({FENCED_EPOCH})
    if who.epoch == current.previous:
        return frozenset({None})
    return frozenset({None, FENCED_EPOCH} if who.epoch in told else {FENCED_EPOCH})


def usurped(fold: Fold, who: Who, place: Place) -> str | None:
    """The other member that owns the committed partition (I-132)."""
    holder = fold.group(who.group_id).holder(place)
    return None if holder == who.member_id else holder
