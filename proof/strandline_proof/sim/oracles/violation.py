"""A broken invariant: its number and the contradiction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.replication.partition_state import IsrMember


class Violation(AssertionError):
    """A violation. `invariant` is a number of docs/internals/invariants.md, for instance I-14."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what


def told_member(member: IsrMember) -> str:
    """A member of an ISR in words."""
    return f"broker {member.broker_id} of epoch {member.broker_epoch}"


def told_isr(members: Iterable[IsrMember] | None) -> str:
    """Members of an ISR in words: each broker and its epoch. None: no ISR is proposed."""
    if members is None:
        return "no other ISR"
    return "[" + ", ".join(f"{m.broker_id} (epoch {m.broker_epoch})" for m in members) + "]"
