"""A member's stream to its coordinator: heartbeats, pushed assignments and the member's commits.

Heartbeats run in a task of their own, so that a slow application does not delay them. A stream that
breaks or stays silent (P-152) is opened again, at the coordinator that metadata then names. The
membership outlives the stream.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc.aio

from strandline._core.backoff import Backoff
from strandline._core.membership import Heard
from strandline._groups import messages
from strandline._net.configs import describe_configs
from strandline._net.connections import on_stream, transport_error
from strandline.errors import (
    BrokerError,
    BrokerUnreachable,
    CallNotServed,
    StrandlineError,
    UnreleasedInstanceId,
    describe,
    from_code,
)
from strandline_proto.errors import NONE
from strandline_proto.v1 import groups_pb2
from strandline_runtime.cancellation import deliver_cancellation

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline._core.cluster_view import Changes, PartitionKey
    from strandline._core.commit_state import CommitOffset
    from strandline._core.membership import Membership
    from strandline._groups.messages import MemberOptions
    from strandline._net.coordinator import Coordinator
    from strandline._net.session import Session
    from strandline_proto.v1.committed_offsets_pb2 import (
        OffsetCommitRequest,
        OffsetCommitResponse,
    )

FIND_S: Final = 5.0
BACKOFF_MAX_MS: Final = 500.0
"""Longest pause between retries: a new coordinator is reached within it."""
HELD_MS: Final = 1000.0
"""Interval at which a static member retries while its instance id is held."""
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"

Written = asyncio.Future["OffsetCommitResponse"]


class _Over(Exception):
    """The end of the exchange on this stream."""


class _Fenced(StrandlineError):
    """The member must join again, after a pause: two that fence each other would spin."""


class GroupStream:
    """The stream of one member to its coordinator, and the task that runs it."""

    def __init__(
        self,
        session: Session,
        coordinator: Coordinator,
        membership: Membership,
        options: MemberOptions,
        on_change: Callable[[dict[PartitionKey, CommitOffset]], None],
    ) -> None:
        self.obstacle: StrandlineError | None = None
        """What stands between the member and its coordinator at the moment."""
        self.fatal: StrandlineError | None = None
        self.quiet = asyncio.Event()
        """No stream is open, and none is wanted."""
        self.quiet.set()
        self._session = session
        self._coordinator = coordinator
        self._membership = membership
        self._options = options
        self._on_change = on_change
        """Called when the coordinator has said something, with the offsets that came with it."""
        self._wake = asyncio.Event()
        self._restart = asyncio.Event()
        self._elsewhere = asyncio.Event()
        self._address: str | None = None
        """Of the open stream."""
        self._hurry = asyncio.Event()
        """The next stream may be opened before the pause is over."""
        session.cluster.watchers.append(self._on_metadata)
        self._commit: tuple[OffsetCommitRequest, Written] | None = None
        self._answers: dict[int, Written] = {}
        self._backoff = Backoff(max_ms=BACKOFF_MAX_MS)
        self._is_session_known = False

    def _now_ms(self) -> float:
        return self._session.runtime.clock.monotonic() * 1000

    # What others ask of it.

    def wake(self) -> None:
        """Makes the task send news to the coordinator."""
        if self._membership.wants_stream:
            self.quiet.clear()
        self._wake.set()

    def restart(self) -> None:
        """Opens a new stream: the open one belongs to an ended membership."""
        self._restart.set()
        self._hurry.set()
        self.wake()

    def _on_metadata(self, changes: Changes) -> None:
        if changes.moved:  # perhaps to another coordinator
            self._hurry.set()
        known = self._coordinator.known_address()
        if self._address is not None and known not in (None, self._address):
            self._elsewhere.set()  # the old one may be paused and look open for long

    async def commit(self, request: OffsetCommitRequest, timeout_s: float) -> OffsetCommitResponse:
        """Commits as the member, on the open stream or on the next one.

        Raises BrokerUnreachable if the stream breaks or time is up: the offsets may be committed.
        """
        assert self._commit is None, "one commit is under way at a time"
        written: Written = asyncio.get_running_loop().create_future()
        self._commit = request, written
        self._wake.set()
        try:
            async with asyncio.timeout(timeout_s):
                return await written
        except TimeoutError:
            why = "" if self.obstacle is None else f": {describe(self.obstacle)}"
            at = "" if self._address is None else f" at {self._address}"
            raise BrokerUnreachable(
                f"the group's coordinator{at} did not answer in time{why}"
            ) from None
        finally:
            if self._commit is not None and self._commit[1] is written:
                self._commit = None

    # The task.

    async def run(self) -> None:
        while True:
            if not self._membership.wants_stream:
                self.quiet.set()
                self._wake.clear()
                await self._wake.wait()
                continue
            self.quiet.clear()
            self._restart.clear()
            self._hurry.clear()
            try:
                address = await self._coordinator.address(FIND_S)
                await self._stream(address)
            except _Fenced:
                await self._pause()
            except CallNotServed as error:
                self._fail(error)
            except UnreleasedInstanceId as error:
                await self._wait_for_release(error)
            except StrandlineError as error:
                self.obstacle = error
                self._session.runtime.log.info(
                    "the stream to the group's coordinator ended", error=describe(error)
                )
                self._coordinator.failed(error)
                await self._pause()

    async def _wait_for_release(self, error: UnreleasedInstanceId) -> None:
        """Waits while another member holds the instance id.

        A dead process may hold it until its session ends; the group's configuration has the session
        timeout.
        """
        self.obstacle = error
        if not self._is_session_known:
            try:
                self._membership.session_ms = await self._session_ms()
            except (BrokerError, CallNotServed):
                pass  # no session to wait for
            except StrandlineError as cause:
                self.obstacle = cause
                await self._pause()
                return
            self._is_session_known = True
            if self._membership.session_ms > 0:
                self._session.runtime.log.warning(
                    "another member has the instance id of this one, which joins once that has "
                    "left or its session is over",
                    session_ms=self._membership.session_ms,
                    error=describe(error),
                )
        else:
            await self._pause(HELD_MS)

    async def _session_ms(self) -> float:
        group = "group", self._options.group_id
        configs = (await describe_configs(self._session, [group], FIND_S))[group]
        timeout = configs.get(SESSION_TIMEOUT)
        return 0.0 if timeout is None or timeout.value is None else float(timeout.value)

    def _fail(self, error: StrandlineError) -> None:
        """Ends the membership with a final error."""
        self._membership.on_fatal()
        self._drop_commits(None)
        self.fatal = error
        self._on_change({})

    async def _pause(self, wait_ms: float | None = None) -> None:
        if wait_ms is None:
            wait_ms = self._backoff.next_ms(self._session.runtime.rng.random())
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._hurry.wait()
        except TimeoutError:
            pass

    async def _stream(self, address: str) -> None:
        """Runs one stream until it breaks or the exchange ends."""
        call: Any = self._session.connections.stub(address).GroupSession()
        generation = self._membership.on_stream_opened(self._now_ms())
        self._address = address
        self._elsewhere.clear()
        error: StrandlineError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(call, generation, address))
                group.create_task(self._end_on_restart())
                group.create_task(self._end_elsewhere())
                await self._write(call, address)
        except* _Over:
            pass
        except* grpc.aio.AioRpcError as several:
            cause = several.exceptions[0]
            assert isinstance(cause, grpc.aio.AioRpcError), cause
            error = transport_error(cause, address)
        except* StrandlineError as failures:
            cause_of = failures.exceptions[0]
            assert isinstance(cause_of, StrandlineError), cause_of
            error = cause_of
        except* asyncio.InvalidStateError:
            error = BrokerUnreachable(f"the connection to {address} has ended")
        finally:
            self._address = None
            call.cancel()
            self._drop_commits(error)
        deliver_cancellation()
        if error is not None:
            raise error

    def _drop_commits(self, error: StrandlineError | None) -> None:
        why = "was closed" if error is None else f"broke: {describe(error)}"
        lost = [*self._answers.values()]
        self._answers.clear()
        is_member = error is not None and not isinstance(error, _Fenced)
        if self._commit is not None and not is_member:  # else the next stream carries it
            lost.append(self._commit[1])
            self._commit = None
        for written in lost:
            if not written.done():
                written.set_exception(
                    BrokerUnreachable(f"the stream to the group's coordinator {why}")
                )

    async def _end_on_restart(self) -> None:
        await self._restart.wait()
        raise _Over

    async def _end_elsewhere(self) -> None:
        await self._elsewhere.wait()
        raise BrokerUnreachable("the group has another coordinator now")

    async def _write(self, call: Any, address: str) -> None:
        membership = self._membership
        while True:
            self._wake.clear()
            if not membership.wants_stream:
                raise _Over
            now_ms = self._now_ms()
            silent_at_ms = membership.silent_at_ms()
            if now_ms >= silent_at_ms:
                raise BrokerUnreachable(f"{address} has said nothing for two heartbeat intervals")
            beat = membership.next_beat(now_ms)
            if beat is not None:
                await self._send(
                    call,
                    groups_pb2.GroupSessionRequest(
                        stream_generation=beat.generation,
                        seq=beat.seq,
                        seen_push=beat.seen_push,
                        heartbeat=messages.heartbeat(self._options, beat),
                    ),
                    silent_at_ms - now_ms,
                )
            elif self._commit is not None and membership.seen_push > 0:
                # A heartbeat sent into a silent stream may arrive when it is long out of date.
                await self._write_commit(call, silent_at_ms - now_ms)
            else:
                await self._doze(min(silent_at_ms, membership.next_beat_ms()) - now_ms)

    async def _write_commit(self, call: Any, limit_ms: float) -> None:
        assert self._commit is not None
        (request, written), self._commit = self._commit, None
        membership = self._membership
        seq = membership.next_seq()
        self._answers[seq] = written
        message = groups_pb2.GroupSessionRequest(
            stream_generation=membership.generation,
            seq=seq,
            seen_push=membership.seen_push,
            commit=request,
        )
        await self._send(call, message, limit_ms)

    async def _send(self, call: Any, message: Any, limit_ms: float) -> None:
        try:
            async with asyncio.timeout(max(limit_ms, 1.0) / 1000):
                await on_stream(call.write(message))
        except TimeoutError:
            raise BrokerUnreachable("the group's coordinator does not read") from None

    async def _doze(self, limit_ms: float) -> None:
        try:
            async with asyncio.timeout(max(limit_ms, 1.0) / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    # Answers.

    async def _read(self, call: Any, generation: int, address: str) -> None:
        while True:
            response = await on_stream(call.read())
            if not isinstance(response, groups_pb2.GroupSessionResponse):
                if not self._membership.wants_stream:
                    raise _Over
                raise BrokerUnreachable(f"{address} ended the stream")
            if not self._membership.on_heard(generation, self._now_ms()):
                continue
            if response.HasField("commit"):
                written = self._answers.pop(response.answers_seq, None)
                if written is not None and not written.done():
                    written.set_result(response.commit)
            if response.HasField("heartbeat"):
                self._on_heartbeat(generation, response)
            self._wake.set()

    def _on_heartbeat(self, generation: int, response: groups_pb2.GroupSessionResponse) -> None:
        answer = response.heartbeat
        if answer.error_code != NONE:
            error = from_code(answer.error_code, answer.error_message)
            self._on_refused(generation, error)
            return
        heard = self._membership.on_answer(
            generation,
            response.push,
            epoch=answer.member_epoch,
            interval_ms=answer.heartbeat_interval_ms,
            assignment=messages.assignment(answer),
        )
        if heard is Heard.FINE:
            self.obstacle = None
            self._backoff.reset()
            self._on_change(messages.granted_offsets(response.committed_offsets))

    def _on_refused(self, generation: int, error: BrokerError) -> None:
        membership = self._membership
        is_now = membership.is_joining and generation == membership.generation
        if is_now and isinstance(error, UnreleasedInstanceId) and not self._is_session_known:
            raise error
        heard = membership.on_error(
            generation, error.code, retriable=error.retriable, now_ms=self._now_ms()
        )
        if heard is Heard.DROPPED:
            return
        if heard is Heard.RETRY:
            raise error
        if heard is Heard.LOST:
            self._session.runtime.log.warning(
                "the group goes on without this member, which joins again", error=describe(error)
            )
            self._on_change({})
            raise _Fenced(describe(error))
        self._fail(error)
        raise _Over
