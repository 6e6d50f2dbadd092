"""Produce requests of clients: the batches of one request, and the answer once each has an outcome.

A request's batches are appended in order (P-37). One timer serves the time limits of all requests
of a connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.end_marker import EPOCH_OF_ITS_OWN
from strandline_broker.hosts.serving.replicas import current_leader, node_on
from strandline_proto.errors import RequestTimedOut, WireError
from strandline_proto.hot_messages import (
    NodeEndpoint,
    ProduceResponse,
    ProduceResult,
    RecordError,
)
from strandline_proto.ids import BrokerId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome
    from strandline_broker.hosts.replica.record_check import Ahead, Looked
    from strandline_broker.hosts.replica.transactions.unverified import (
        UnverifiedAppend,
        Verification,
    )
    from strandline_broker.hosts.serving.produce import AwaitedAppend, ProduceService
    from strandline_proto.hot_messages import ProduceData

TIMEOUT_MS_MAX: Final = 300_000
AT_ONCE: Final = 100
"""Batches of one request that are appended between two yields to other calls."""
_ENDED: Final = RequestTimedOut("the stream of the request has ended")


class ProduceDeadlines:
    """The requests that wait for their acks, and the time limit of each."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[RequestedAppends, float] = {}
        """Deadline by the loop's clock of each request that waits for its acks."""
        self._alarm: asyncio.TimerHandle | None = None
        """One timer for all requests. Their time limits are mostly equal, so it is set again when
        it fires, and not for each request.
        """
        self._alarm_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self, request: RequestedAppends, timeout_ms: int) -> None:
        until_s = self._loop.time() + min(max(timeout_ms, 0), TIMEOUT_MS_MAX) / 1000
        self._waiting[request] = until_s
        if self._alarm is None or until_s < self._alarm_at:
            self._set_alarm(until_s)

    def drop(self, request: RequestedAppends) -> None:
        """Ends the wait of a request that has its answer, or needs none."""
        self._waiting.pop(request, None)

    def abandon(self) -> None:
        """Ends the answers of an ended stream; the appends stand, and no caller waits for their
        acks.
        """
        waiting, self._waiting = self._waiting, {}
        for request in waiting:
            request.abandon()
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm, now_s = None, self._loop.time()
        due = [request for request, until_s in self._waiting.items() if until_s <= now_s]
        for request in sorted(due, key=self._waiting.__getitem__):
            request.time_out()
        if self._waiting:
            self._set_alarm(min(self._waiting.values()))


class RequestedAppends:
    """One request until each of its partitions has an outcome."""

    def __init__(
        self,
        service: ProduceService,
        metadata: MetadataCache,
        listener: str,
        deadlines: ProduceDeadlines,
        on_done: Callable[[ProduceResponse], None],
        *,
        correlation_id: int,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None = None,
        transaction_version: int = EPOCH_OF_ITS_OWN,
        connection: object = None,
    ) -> None:
        """`on_done` is called once with the outcomes in the order of the batches, unless acks is
        0. `transaction_version`: the one that the client uses, which its request's version tells.
        `connection`: as `Appends.append` has it.
        """
        self._service = service
        self._metadata = metadata
        self._listener = listener
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._transactional_id = transactional_id
        self._transaction_version = transaction_version
        self._connection = connection
        self._deadlines = deadlines
        self._on_done = on_done
        self._response = ProduceResponse(correlation_id)
        self._left = 1  # this method itself: no answer before every batch was looked at
        self._waiting: list[AwaitedAppend | UnverifiedAppend] = []

    async def start(self, batches: Sequence[ProduceData], ahead: Ahead) -> bool:
        """True if another request may follow; False if a batch was refused and no answer reports
        it.
        """
        if self._acks != 0 and len(batches) > AT_ONCE:
            # Between two pauses the stream may end: then this request is among those given up.
            self._deadlines.expect(self, self._timeout_ms)
        refusal, verification = self._verification()
        for place, data in enumerate(batches):
            if place > 0 and place % AT_ONCE == 0:
                await asyncio.sleep(0)
            self._left += 1
            result = ProduceResult(data.topic_id, data.partition, base_offset=-1, leader_epoch=-1)
            self._response.partitions.append(result)
            if refusal is not None:
                self._refuse(result, refusal)
            else:
                self._append(data, result, ahead.get(place), verification)
        if self._left > 1 and self._acks != 0:
            self._deadlines.expect(self, self._timeout_ms)
        self._one_less()
        return self._acks != 0 or all(result.appended for result in self._response.partitions)

    @property
    def refusals(self) -> list[str]:
        """The reasons of the batches that were refused so far."""
        return [each.error_message for each in self._response.partitions if not each.appended]

    def _verification(self) -> tuple[WireError | None, Verification | None]:
        """Returns (the refusal of a wrong transactional id, what its batches need)."""
        if self._transactional_id is None:
            return None, None
        try:
            return None, self._service.verification(
                self._transactional_id, self._transaction_version
            )
        except WireError as error:
            return error, None

    def _append(
        self,
        data: ProduceData,
        result: ProduceResult,
        looked: Looked | None,
        verification: Verification | None,
    ) -> None:
        def on_done(outcome: ProduceOutcome) -> None:
            self._set(result, outcome)

        topic_id, index, records, epoch = data
        try:
            awaited = self._service.append(
                (topic_id, index),
                records,
                current_leader_epoch=epoch,
                acks=self._acks,
                verification=verification,
                on_done=on_done,
                looked=looked,
                connection=self._connection,
            )
        except WireError as error:
            self._refuse(result, error)
            return
        if awaited is not None:
            self._waiting.append(awaited)

    def _refuse(self, result: ProduceResult, error: WireError) -> None:
        result.error_code, result.error_message = error.code, str(error)
        self._name_record(result, error)
        result.appended = False
        self._hint(result)
        self._one_less()

    def _set(self, result: ProduceResult, outcome: ProduceOutcome) -> None:
        result.base_offset = outcome.base_offset
        result.log_append_time_ms = outcome.log_append_time_ms
        result.log_start_offset = outcome.log_start_offset
        result.appended = outcome.appended
        result.leader_epoch = outcome.leader_epoch
        if outcome.error is not None:
            result.error_code, result.error_message = outcome.error.code, str(outcome.error)
            self._name_record(result, outcome.error)
            self._hint(result)
        self._one_less()

    @staticmethod
    def _name_record(result: ProduceResult, error: WireError) -> None:
        if error.record_index is not None:
            result.record_errors = (RecordError(error.record_index, str(error)),)

    def _hint(self, result: ProduceResult) -> None:
        """Names the current leader and its address to the producer (KIP-951)."""
        view = self._metadata.view
        leader = current_leader(view, (result.topic_id, result.partition))
        if leader is None:
            return
        result.current_leader = leader
        found = node_on(view, BrokerId(leader.leader_id), self._listener)
        if found is None:
            return
        endpoint = NodeEndpoint(*found)
        if endpoint not in self._response.node_endpoints:
            self._response.node_endpoints.append(endpoint)

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0 and self._acks != 0:
            self._deadlines.drop(self)
            self._on_done(self._response)

    def abandon(self) -> None:
        """Drops the waiters of an ended stream: they would stay as long as nothing is committed."""
        self._left += 1  # it never gets so far
        for awaited in self._waiting:
            awaited.abandon(_ENDED)

    def time_out(self) -> None:
        for awaited in self._waiting:
            awaited.time_out(self._timeout_ms)
