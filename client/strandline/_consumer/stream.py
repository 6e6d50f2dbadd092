"""The Fetch stream to one broker: consecutive long polls, each with a deadline (P-80)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import grpc.aio

from strandline._core.backoff import Backoff
from strandline._core.fetch_session import FetchSession, FetchTarget
from strandline._net.connections import on_stream, transport_error
from strandline.errors import BrokerUnreachable, StrandlineError, from_code
from strandline_proto.errors import NONE
from strandline_proto.hot_messages import FetchPartition, FetchRequest, FetchResponse, ReplicaState
from strandline_runtime.cancellation import deliver_cancellation

if TYPE_CHECKING:
    from strandline._consumer.fetcher import Wanted
    from strandline._core.cluster_view import PartitionKey
    from strandline._net.session import Session

_NO_REPLICA: Final = ReplicaState(-1, -1)
CROWDED_PAUSE_S: Final = 0.01
"""Pause between fetches that do not wait, while some partition's buffer is full."""


class _Interrupted(Exception):
    """The set of wanted partitions changed during a long poll."""


class FetchLimits(NamedTuple):
    """The bounds of each fetch request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    request_timeout_s: float
    isolation_level: int = 0


class FetchPlan(Protocol):
    """The owner of the positions that a stream reads from."""

    def wanted(self, broker_id: int) -> tuple[dict[PartitionKey, Wanted], bool]:
        """Returns what to fetch from the broker now; True if a full buffer holds something back."""
        ...

    def on_response(self, wanted: dict[PartitionKey, Wanted], response: FetchResponse) -> None:
        """Applies the broker's answer to a request for `wanted`."""
        ...

    def on_unreachable(self, broker_id: int, error: StrandlineError) -> None:
        """Notes an unreachable broker; the stream retries after a pause."""
        ...


class FetchStream:
    """The stream on which one consumer fetches from one broker."""

    def __init__(
        self, session: Session, plan: FetchPlan, broker_id: int, limits: FetchLimits
    ) -> None:
        self.broker_id = broker_id
        self._session = session
        self._plan = plan
        self._limits = limits
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._polling: dict[PartitionKey, Wanted] | None = None
        self._backoff = Backoff()

    def wake(self) -> None:
        """Makes the stream read the plan again: room in a buffer, a new leader, a seek."""
        self._wake.set()
        polling = self._polling
        if polling is None:
            return
        wanted, _ = self._plan.wanted(self.broker_id)
        if any(polling.get(key) != want for key, want in wanted.items()):
            self._changed.set()

    async def run(self) -> None:
        while True:
            wanted, _ = self._plan.wanted(self.broker_id)
            if not wanted:
                self._wake.clear()
                await self._wake.wait()
                continue
            address = self._session.cluster.address_of(self.broker_id)
            try:
                if address is None:
                    raise BrokerUnreachable(f"broker {self.broker_id} is not in the metadata")
                await self._stream(address)
            except StrandlineError as error:
                self._plan.on_unreachable(self.broker_id, error)
                pause_s = self._backoff.next_ms(self._session.runtime.rng.random()) / 1000
                await asyncio.sleep(pause_s)

    async def _stream(self, address: str) -> None:
        """Runs one stream until it breaks or the plan changes."""
        call: Any = self._session.connections.fetch(address)
        self._changed.clear()
        error: StrandlineError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poll(call, address))
                await self._watch()
        except* _Interrupted:
            pass
        except* grpc.aio.AioRpcError as group_of:
            cause = group_of.exceptions[0]
            assert isinstance(cause, grpc.aio.AioRpcError), cause
            error = transport_error(cause, address)
        except* StrandlineError as failures:
            cause_of = failures.exceptions[0]
            assert isinstance(cause_of, StrandlineError), cause_of
            error = cause_of
        except* asyncio.InvalidStateError:
            error = BrokerUnreachable(f"the connection to {address} has ended")
        finally:
            self._polling = None
            call.cancel()
        deliver_cancellation()
        if error is not None:
            raise error

    async def _watch(self) -> None:
        await self._changed.wait()
        raise _Interrupted

    async def _poll(self, call: Any, address: str) -> None:
        session = FetchSession()
        correlation_id = 0
        while True:
            wanted, crowded = self._plan.wanted(self.broker_id)
            if crowded or not wanted:
                self._wake.clear()
                await self._pause(None if not wanted else CROWDED_PAUSE_S)
                wanted, crowded = self._plan.wanted(self.broker_id)
                if not wanted:
                    continue
            correlation_id += 1
            max_wait_ms = 0 if crowded else self._limits.max_wait_ms
            request = self._request(session, wanted, correlation_id, max_wait_ms)
            self._polling = wanted if max_wait_ms > 0 else None
            limit_s = max_wait_ms / 1000 + self._limits.request_timeout_s
            try:
                async with asyncio.timeout(limit_s):
                    await on_stream(call.write(request))
                    response = await on_stream(call.read())
            except TimeoutError:
                raise BrokerUnreachable(
                    f"{address} was silent for {limit_s * 1000:.0f} ms"
                ) from None
            self._polling = None
            if not isinstance(response, FetchResponse):
                raise BrokerUnreachable(f"{address} ended the Fetch stream")
            if response.error_code != NONE:
                raise from_code(response.error_code, response.error_message)
            session.on_answer(response.session_id)
            self._backoff.reset()
            self._plan.on_response(wanted, response)

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _request(
        self,
        session: FetchSession,
        wanted: dict[PartitionKey, Wanted],
        correlation_id: int,
        max_wait_ms: int,
    ) -> FetchRequest:
        targets: dict[PartitionKey, FetchTarget] = {key: w.target for key, w in wanted.items()}
        changes = session.next_request(targets)
        return FetchRequest(
            correlation_id=correlation_id,
            cluster_id=self._session.cluster.view.cluster_id,
            replica_state=_NO_REPLICA,
            max_wait_ms=max_wait_ms,
            min_bytes=self._limits.min_bytes,
            max_bytes=self._limits.max_bytes,
            isolation_level=self._limits.isolation_level,
            session_id=changes.session_id,
            session_epoch=changes.session_epoch,
            partitions=[
                FetchPartition(
                    *key,
                    current_leader_epoch=target.leader_epoch,
                    fetch_offset=target.offset,
                    last_fetched_epoch=target.last_fetched_epoch,
                    log_start_offset=-1,
                    partition_max_bytes=target.max_bytes,
                )
                for key, target in changes.changed
            ],
            forgotten=changes.forgotten,
        )
