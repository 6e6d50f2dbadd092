"""The leaders' ISR proposals on their way to the controller (AlterPartition), and the answers.

All waiting proposals go into one request, and one request is under way at a time. The leader itself
ensures that a partition has at most one open proposal (I-28). An answer goes to the sender of the
proposal, paired by request id and not by partition. So a late answer cannot be taken for that of a
later proposal (P-79).

Each proposal is answered exactly once. A failed call, or an answer that leaves the partition out,
says nothing about the outcome. The proposer then gets a retriable error and continues to count the
member that it wants to add (P-5, P-6).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import grpc

from strandline_broker.core.replication.partition_state import IsrAnswer
from strandline_broker.hosts.common.controller_calls import AlterPartitionAnswer
from strandline_broker.hosts.common.quiet import Quiet
from strandline_broker.hosts.replica.leading import Leading
from strandline_proto.errors import RequestTimedOut, UnknownServerError, WireError
from strandline_proto.ids import NO_BROKER_EPOCH, TopicId

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.replication.isr_proposal import ProposeIsr
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.common.controller_calls import ControllerCalls, Key
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.ids import BrokerEpoch, BrokerId
    from strandline_runtime.runtime import Runtime

PARTITIONS_MAX: Final = 1000
"""Limit of partitions in one request."""
ANSWER_TIMEOUT_S: Final = 2.0
REGISTRATION_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Pending:
    proposal: ProposeIsr
    answer: Callable[[int, IsrAnswer | WireError], None]


class IsrChanges:
    """Submit from the event loop; `run` sends until it is cancelled."""

    def __init__(
        self,
        runtime: Runtime,
        controller: ControllerCalls,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._log = runtime.log
        self._quiet = Quiet(runtime.clock)
        """A controller that is gone is asked again and again."""
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[Key, _Pending] = {}
        self._work = asyncio.Event()

    def submit(
        self,
        topic_id: TopicId,
        partition: int,
        proposal: ProposeIsr,
        answer: Callable[[int, IsrAnswer | WireError], None],
    ) -> None:
        """Send `proposal` soon; `answer` is called once with its request id and its outcome.

        A waiting proposal of the same partition is from an earlier leader epoch, and is dropped.
        """
        replaced = self._waiting.pop((topic_id, partition), None)
        self._waiting[topic_id, partition] = _Pending(proposal, answer)
        self._work.set()
        if replaced is not None:
            given_up = RequestTimedOut("a newer proposal for the partition took this one's place")
            # Not at once: the caller is in the middle of carrying out a leader's effects.
            loop = asyncio.get_running_loop()
            loop.call_soon(replaced.answer, replaced.proposal.request_id, given_up)

    def propose(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Submit on behalf of a replica; the answer goes to its leader, if it still leads."""

        def settle(request_id: int, outcome: IsrAnswer | WireError) -> None:
            leading = partition.role
            if not isinstance(leading, Leading):
                return
            if leading.machine.leader_epoch != proposal.leader_epoch:
                return  # a newer leader epoch has abandoned the proposal (I-28)
            leading.on_isr_outcome(request_id, possible(outcome, partition.state))

        topic_id, index = partition.key
        self.submit(TopicId(topic_id), index, proposal, settle)

    async def run(self) -> None:
        while True:
            await self._work.wait()
            if self._broker_epoch() == NO_BROKER_EPOCH:
                await asyncio.sleep(REGISTRATION_POLL_S)
                continue
            batch = dict(list(self._waiting.items())[:PARTITIONS_MAX])
            for key in batch:
                del self._waiting[key]
            if not self._waiting:
                self._work.clear()
            await self._send(batch)

    async def _send(self, batch: dict[Key, _Pending]) -> None:
        proposals = {key: pending.proposal for key, pending in batch.items()}
        response = AlterPartitionAnswer()
        failed: WireError = UnknownServerError("the controller's answer leaves the partition out")
        try:
            response = await self._controller.alter_partitions(
                self._broker_id, self._broker_epoch(), proposals, timeout_s=ANSWER_TIMEOUT_S
            )
        except grpc.RpcError as error:
            failed = self._controller.failure(error)
            say = self._log.info if self._quiet.is_due() else self._log.debug
            say("ISR changes were not answered", partitions=len(batch), why=str(failed))
        else:
            if response.error is not None:
                failed = response.error
                self._log.warning("ISR changes were refused", why=str(failed))
        answers = response.partitions
        for key, pending in batch.items():
            pending.answer(pending.proposal.request_id, answers.get(key, failed))


def possible(outcome: IsrAnswer | WireError, state: PartitionState | None) -> IsrAnswer | WireError:
    """The outcome, or an error for an answer that no controller gives: the next push tells the
    truth.
    """
    if state is None or not isinstance(outcome, IsrAnswer):
        return outcome
    problem = replace(state, isr=outcome.isr, elr=outcome.elr).problem()
    return outcome if problem is None else UnknownServerError(problem)
