"""The meaning of a broker's answer to a push: its progress, the partitions that it could not apply,
and those that it may lead now.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.brokers.fencing import decide_replica_failed
from strandline_broker.core.controller.brokers.registration import check_memory
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.partitions.leaderless import (
    decide_lead_again,
    may_lead_again,
)
from strandline_broker.hosts.controller.pipeline import NOT_NOW
from strandline_proto.errors import (
    KafkaStorageError,
    StaleBrokerEpoch,
    UnknownServerError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Set
    from typing import Any

    from strandline_broker.core.controller.brokers.applied_offsets import Applied
    from strandline_broker.core.controller.brokers.registration import StoreMismatch
    from strandline_broker.core.controller.log.state import Broker, ControllerState
    from strandline_broker.core.controller.partitions.log_ends import LogEnds
    from strandline_broker.core.push_answer import FailedPartition, PushAnswer
    from strandline_proto.ids import BrokerEpoch, BrokerId, MetadataOffset, TopicId
    from strandline_runtime.runtime import Runtime

APPLY_FAILURES: Final = (KafkaStorageError, UnknownServerError)
"""Errors of one partition which mean that this broker cannot host it (P-79)."""
RETRY_S: Final = 0.1
"""Time after which the pipeline may have room for another decision."""


class PushAnswers:
    """The handling of answers to pushes, owned by the controller.

    `spawn` runs work that waits for a decision of the pipeline, `submit`, beside the streams: the
    streams must not wait.
    """

    def __init__(
        self,
        runtime: Runtime,
        state: ControllerState,
        *,
        submit: Callable[[Callable[[], Decision[bool]]], Awaitable[bool]],
        store_id: str,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_applied: Callable[[Broker, MetadataOffset], None],
        applied: Applied,
        refuse_to_run: Callable[[StoreMismatch], None],
        ends: LogEnds,
    ) -> None:
        self._log = runtime.log
        self._state = state
        self._decide = submit
        self._store_id = store_id
        self._spawn = spawn
        self._on_applied = on_applied
        self._applied = applied
        self._refuse_to_run = refuse_to_run
        self._ends = ends
        self._unfit: dict[tuple[TopicId, int], dict[BrokerId, BrokerEpoch]] = {}
        """The brokers that could not apply a partition, and have applied no snapshot of it
        since.
        """

    def on_answer(self, receiver: Broker, answer: PushAnswer, *, full: bool) -> None:
        mismatch = check_memory(
            self._state,
            ours=self._store_id,
            broker_id=receiver.broker_id,
            store_id=answer.store_id,
            controller_epoch=answer.controller_epoch,
            metadata_offset=answer.applied_offset,
        )
        if mismatch is not None:
            self._refuse_to_run(mismatch)
        self._on_applied(receiver, answer.applied_offset)
        if answer.error is not None and not isinstance(answer.error, StaleBrokerEpoch):
            self._log.warning(
                "a broker refuses a push", broker=receiver.broker_id, why=str(answer.error)
            )
        as_of = answer.metadata_offset
        failed = {(each.topic_id, each.partition) for each in answer.failed}
        unfit = [each for each in answer.failed if self._is_unfit(receiver, each)]
        if unfit:
            around = [partial(self._around, receiver, each, as_of) for each in unfit]
            self._spawn(self._submit(around, receiver, "a replica is elected around"))
        for told in answer.log_ends:
            self._ends.on_told(
                receiver,
                self._state.partition(told.topic_id, told.partition),
                leader_epoch=told.leader_epoch,
                end=told.end,
            )
        if not answer.want_full and answer.error is None:
            self._applied.on_answered(
                receiver.broker_id, receiver.epoch, as_of, failed=failed, full=full
            )
            if full:
                self._on_snapshot_applied(receiver, failed, as_of)

    def _is_unfit(self, receiver: Broker, failed: FailedPartition) -> bool:
        self._log.warning(
            "a broker could not apply a partition",
            broker=receiver.broker_id,
            topic_id=failed.topic_id.hex(),
            partition=failed.partition,
            error_code=failed.error.code,
            why=str(failed.error),
        )
        if not isinstance(failed.error, APPLY_FAILURES):
            return False
        unfit = self._unfit.setdefault((failed.topic_id, failed.partition), {})
        unfit[receiver.broker_id] = receiver.epoch
        return True

    def _around(
        self, receiver: Broker, failed: FailedPartition, as_of: MetadataOffset
    ) -> Decision[bool]:
        unfit = self._unfit_for((failed.topic_id, failed.partition))
        if receiver.broker_id not in unfit:
            return Decision((), answer=False)  # it has come to its role while this waited
        return decide_replica_failed(
            self._state,
            receiver.broker_id,
            receiver.epoch,
            topic_id=failed.topic_id,
            partition=failed.partition,
            as_of=as_of,
            unfit=unfit,
        )

    def _unfit_for(self, key: tuple[TopicId, int]) -> list[BrokerId]:
        brokers = self._state.brokers
        unfit = self._unfit.get(key, {})
        return [b for b, epoch in unfit.items() if b in brokers and brokers[b].epoch == epoch]

    def _on_snapshot_applied(
        self, receiver: Broker, failed: Set[tuple[TopicId, int]], as_of: MetadataOffset
    ) -> None:
        """Let the broker lead again what it could not lead before. This includes partitions for
        which another leader is being elected, or was elected after the snapshot was made: the
        broker has no reason to request another snapshot. A broker requests one at most every few
        seconds, so an election that fails repeatedly causes no tight loop.
        """
        me = receiver.broker_id
        came = {k for k, unfit in self._unfit.items() if me in unfit and k not in failed}
        for key in came:
            del self._unfit[key][me]
            if not self._unfit[key]:
                del self._unfit[key]
        who = (me, receiver.epoch)
        if came or may_lead_again(self._state, *who, failed=failed, as_of=as_of):
            decide = partial(
                decide_lead_again, self._state, *who, failed=failed, as_of=as_of, came=came
            )
            self._spawn(self._submit([decide], receiver, "a broker leads again"))

    async def _submit(
        self, decisions: Iterable[Callable[[], Decision[bool]]], receiver: Broker, done: str
    ) -> None:
        """One after the other: there may be thousands, and more than wait in the pipeline. A broker
        whose disk hangs may say so once (I-88, I-94).
        """
        for decide in decisions:
            if await self._sooner_or_later(decide):
                self._log.info(done, broker=receiver.broker_id, epoch=receiver.epoch)

    async def _sooner_or_later(self, decide: Callable[[], Decision[bool]]) -> bool:
        while True:
            try:
                return await self._decide(decide)
            except NOT_NOW:
                await asyncio.sleep(RETRY_S)
