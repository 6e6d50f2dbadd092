"""Commits that arrive late: their sender is no longer a member, and gave them up before they were
committed.

A network may still carry such a commit, or a log may hold it uncommitted; no server could recognize
a late one (ADR 16). The commit may move the group back, or ahead of the position from which its
sender continues, until the sender learns of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.workload.group_history import CommitAsked, CommitUnknown, OffsetsTold

if TYPE_CHECKING:
    from strandline_proof.sim.oracles.groups.fold import Offset
    from strandline_proof.sim.workload.group_history import Told


class LateCommits:
    """Late commits. Each is known by the metadata of its offsets, which no other has."""

    def __init__(self) -> None:
        self._asked: dict[int, set[str]] = {}
        """By operation, the commits whose sender is no member."""
        self._given_up: dict[str, str] = {}
        """The commits given up without an answer, and their senders."""
        self._unheard: dict[str, int] = {}
        """The commits that were committed late, and the lowest offset from which their senders may
        continue.
        """

    def on_told(self, told: Told) -> None:
        match told.event:
            case CommitAsked() as event if not event.member_id:
                self._asked[event.operation] = {v.metadata for v in event.offsets.values()}
            case CommitUnknown() as event:
                says = self._asked.pop(event.operation, set())
                self._given_up |= dict.fromkeys(says, told.who)
            case OffsetsTold() as event:
                for value in filter(None, event.offsets.values()):
                    if self._given_up.get(value.metadata) == told.who:
                        self._unheard.pop(value.metadata, None)
            case _:
                pass

    def lowest(self, before: Offset | None, after: Offset) -> int | None:
        """The lowest offset that may be committed after `before`; None: `after` arrives late."""
        lowest = 0
        if before is not None and before.topic_id == after.topic_id:
            lowest = min(before.offset, self._unheard.get(before.metadata, before.offset))
        if after.metadata not in self._given_up:
            return lowest
        self._unheard[after.metadata] = lowest
        return None
