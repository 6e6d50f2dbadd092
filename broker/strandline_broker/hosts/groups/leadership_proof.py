"""Proof that a shard's broker still leads, while the broker has no news from the controller.

The controller may have fenced such a coordinator. It returns a committed offset only after a write
(ADR 16): a record that says nothing, appended after the question and committed in the same epoch.
By then every member of the ISR has read from this leader since the question came, and only one of
them can be elected: so no other coordinator had acknowledged anything before it (I-106, P-101).

One write serves all questions that came before it was appended. Later questions wait for the next
write, which begins `PAUSE_S` after the last.

Two refusals make a client stop for good. Such a coordinator gives neither, without a write: its
member may have joined again at another one (I-124). The client tries again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups.commands import ProveLeadership
from strandline_broker.hosts.coordination.waiting import Asked
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    RequestTimedOut,
    UnreleasedInstanceId,
    WireError,
)

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import FetchOffsets, Reply
    from strandline_broker.hosts.groups.group_shard import GroupShard

PROOF_S: Final = 1.0
"""How long a write may take: the followers of a leader in office have it within milliseconds."""
PAUSE_S: Final = 0.05
"""Between the beginnings of two writes of one shard."""
ENDING: Final = (FencedInstanceId, UnreleasedInstanceId)
"""Refusals after which a process with an instance id does not go on."""
Question = tuple["FetchOffsets", "Asked[Reply]"]


def not_sure(host: GroupShard, refusal: WireError) -> CoordinatorNotAvailable:
    """Returns the error in place of a refusal that may be outdated."""
    shard = host.shard
    return CoordinatorNotAvailable(
        f"{shard.name}: broker {shard.context.me} has not heard from the controller for most of its"
        f" session, and another may coordinate the group by now; here, {refusal}"
    )


class LeadershipProof:
    def __init__(self, host: GroupShard) -> None:
        self._host = host
        self._asked: list[Question] = []
        self._under_way = False
        self._next: asyncio.TimerHandle | None = None
        self._last_s = -PAUSE_S

    def before(self, command: FetchOffsets, asked: Asked[Reply]) -> None:
        """Carries the command out for `asked` once a write has proved the leadership."""
        asked.parked()
        self._asked.append((command, asked))
        if not self._under_way and self._next is None:
            self._begin_in_time()

    def forget(self, error: WireError) -> None:
        """Ends all questions with the error: the leadership is over or the shard loads again."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        waiting, self._asked = self._asked, []
        for _, asked in waiting:
            asked.lost(error)

    def _begin_in_time(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._last_s + PAUSE_S - loop.time()
        if wait_s > 0:
            self._next = loop.call_later(wait_s, self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        self._next = None
        self._last_s = asyncio.get_running_loop().time()
        served, self._asked = self._asked, []
        served = [(command, asked) for command, asked in served if not asked.is_over]
        if not served:
            return
        self._under_way = True
        epoch = self._host.machine.epoch
        proof = Asked["Reply"](self._host.shard, PROOF_S)
        self._host.shard.ask(ProveLeadership(served[0][0].group_id), proof)

        def done(proof: asyncio.Future[Reply]) -> None:
            self._under_way = False
            proven = proof.result()
            if self._host.machine.epoch != epoch or isinstance(proven, WireError):
                self._refuse(served, proven)
            else:
                self._answer(served)
            if self._asked and self._next is None and not self._under_way:
                self._begin_in_time()

        proof.answer.add_done_callback(done)

    def _answer(self, served: list[Question]) -> None:
        for command, asked in served:
            self._host.shard.ask(command, asked)

    def _refuse(self, served: list[Question], why: Reply) -> None:
        """As the write was refused; a write that was not committed proves nothing."""
        if isinstance(why, WireError) and not isinstance(why, RequestTimedOut):
            error = why
        else:
            shard = self._host.shard
            error = CoordinatorNotAvailable(
                f"{shard.name}: broker {shard.context.me} has not heard from the"
                " controller for most of its session, and another may coordinate the group by now:"
                " a write of its own has to be committed first, which it was not within"
                f" {PROOF_S:g} s"
            )
        for _, asked in served:
            asked.lost(error)
