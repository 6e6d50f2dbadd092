"""Sends commits to the coordinator, one at a time, each until it is settled or times out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline._core.backoff import Backoff
from strandline._core.commit_state import GONE, Commit, CommitOffset, CommitState, Fate, fate
from strandline._groups import messages
from strandline.errors import (
    BrokerError,
    CallNotServed,
    ClientClosed,
    CommitFailed,
    CoordinatorNotAvailable,
    NotCoordinator,
    OperationTimedOut,
    StrandlineError,
    UnknownTopicId,
    describe,
    from_code,
)
from strandline_proto.errors import NONE
from strandline_proto.v1 import committed_offsets_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from strandline._core.cluster_view import Changes, PartitionKey
    from strandline._core.membership import Membership
    from strandline._groups.messages import MemberOptions
    from strandline._groups.stream import GroupStream
    from strandline._net.coordinator import Coordinator
    from strandline._net.session import Session
    from strandline_proto.v1.committed_offsets_pb2 import OffsetCommitResponse

BACKOFF_MAX_MS: Final = 250.0
ATTEMPT_S: Final = 5.0
NO_EPOCH: Final = -1
"""Member epoch of a consumer that is no member: the caller assigned its partitions."""


class Fetched(NamedTuple):
    """Committed offsets, and the errors of partitions without an answer."""

    found: dict[PartitionKey, CommitOffset]
    failures: dict[PartitionKey, StrandlineError]


def _look(done: asyncio.Future[None]) -> None:
    """Marks the error of a commit as seen: an unused future logs no warning."""
    if not done.cancelled():
        done.exception()


class Commits:
    """The commits and committed offsets of one consumer."""

    def __init__(
        self,
        session: Session,
        coordinator: Coordinator,
        membership: Membership,
        stream: GroupStream,
        options: MemberOptions,
    ) -> None:
        self.state = CommitState()
        self._session = session
        self._coordinator = coordinator
        self._membership = membership
        self._stream = stream
        self._options = options
        self.on_committed: Callable[[dict[tuple[str, int], CommitOffset]], None] | None = None
        """Called with the offsets of each commit that succeeded, in part or whole."""
        self._wake = asyncio.Event()
        self._results: dict[Commit, asyncio.Future[None]] = {}
        self._topic_names: dict[bytes, str] = {}
        """Names of all committed topics: metadata drops the name of a deleted topic."""
        self._deleted: set[bytes] = set()
        session.cluster.watchers.append(self._on_metadata)

    def _on_metadata(self, changes: Changes) -> None:
        for topic_id in changes.gone:
            self._deleted.add(topic_id)
            self.state.on_deleted(topic_id)

    def _now_ms(self) -> float:
        return self._session.runtime.clock.monotonic() * 1000

    # Committing.

    def submit(
        self,
        offsets: Mapping[PartitionKey, CommitOffset],
        timeout_s: float,
        *,
        by_itself: bool = False,
    ) -> asyncio.Future[None]:
        """Queues a commit behind the earlier ones; returns the future of its outcome.

        Cancelling or dropping the future does not cancel the commit.
        """
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not offsets:
            result.set_result(None)
        elif self.state.is_full:
            result.set_exception(
                CommitFailed("too many commits wait for their turn already; await some of them")
            )
        else:
            deadline_ms = self._now_ms() + timeout_s * 1000
            is_of_member = self._membership.subscription is not None
            commit = Commit(dict(offsets), deadline_ms, by_itself, is_of_member)
            self._results[commit] = result
            self._remember_names(offsets)
            self.state.add(commit)
            self._wake.set()
        told = asyncio.shield(result)
        told.add_done_callback(_look)
        return told

    async def settled(self, keys: Collection[PartitionKey]) -> None:
        """Waits until no commit of these partitions is under way."""
        while under_way := [
            result
            for commit, result in self._results.items()
            if not commit.offsets.keys().isdisjoint(keys)
        ]:
            await asyncio.wait(under_way)

    async def run(self) -> None:
        while True:
            commit = self.state.next()
            if commit is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            cause = await self._carry_out(commit)
            self.state.settle(commit)
            self._tell(commit, cause)

    def hurry(self, timeout_s: float) -> None:
        """Shortens the deadline of every commit, because the application leaves."""
        deadline_ms = self._now_ms() + timeout_s * 1000
        for commit in self._results:
            commit.deadline_ms = min(commit.deadline_ms, deadline_ms)

    def end(self) -> None:
        """Ends all commits."""
        under_way = self.state.current
        for commit in self.state.drain():
            closed = ClientClosed("the consumer was closed before it had committed")
            closed.may_have_been_written = commit is under_way
            self._fail(commit, closed)

    def _fail(self, commit: Commit, error: StrandlineError) -> None:
        result = self._results.pop(commit, None)
        if result is not None:
            result.set_exception(error)
            _look(result)

    async def _carry_out(self, commit: Commit) -> StrandlineError | None:
        """Repeats the commit until it is settled or late; returns the last obstacle."""
        backoff = Backoff(max_ms=BACKOFF_MAX_MS)
        cause: StrandlineError | None = None
        while True:
            self._refuse_what_is_gone(commit)
            left_ms = commit.deadline_ms - self._now_ms()
            if commit.is_settled or left_ms <= 0:
                return cause
            try:
                answer = await self._send(commit, min(ATTEMPT_S, left_ms / 1000))
            except StrandlineError as error:
                # The commit's own deadline is no better cause than an earlier obstacle.
                if cause is None or self._now_ms() < commit.deadline_ms:
                    cause = error
                commit.in_doubt = commit.in_doubt or not isinstance(error, BrokerError)
                self._coordinator.failed(error)
            else:
                self._take_in(commit, answer)
                if commit.is_settled:
                    return None
                if commit.obstacle is not None:
                    cause = from_code(*commit.obstacle)
                if isinstance(cause, UnknownTopicId):
                    self._session.cluster.request_refresh()  # it may have been deleted
            if isinstance(cause, NotCoordinator):
                self._coordinator.failed(cause)
            wait_ms = backoff.next_ms(self._session.runtime.rng.random())
            left_ms = commit.deadline_ms - self._now_ms()
            await asyncio.sleep(max(0.0, min(wait_ms, left_ms)) / 1000)

    def _refuse_what_is_gone(self, commit: Commit) -> None:
        """Refuses the offsets of deleted topics and of partitions that the member does not own.

        A partition that was lost and granted again counts as lost until the listener has run:
        another member may have read it meanwhile. A member that has left owns nothing.
        """
        self.state.refuse_deleted(commit, self._deleted)
        if commit.is_of_member:
            reconciling = self._membership.reconciling
            own = reconciling.owned - reconciling.lost
            gone = [key for key in commit.offsets if key not in own]
            commit.refuse(gone, GONE, "")

    async def _send(self, commit: Commit, timeout_s: float) -> OffsetCommitResponse:
        options = self._options
        if commit.is_of_member:
            request = messages.commit_request(
                options.group_id,
                options.member_id,
                self._membership.epoch,
                options.instance_id,
                commit.offsets,
            )
            return await self._stream.commit(request, timeout_s)
        request = messages.commit_request(options.group_id, "", NO_EPOCH, None, commit.offsets)
        return await self._coordinator.call(
            lambda stub: stub.OffsetCommit,
            request,
            timeout_s=timeout_s,
            returns=committed_offsets_pb2.OffsetCommitResponse,
        )

    def _take_in(self, commit: Commit, answer: OffsetCommitResponse) -> None:
        owned: Collection[PartitionKey] | None = None
        if commit.is_of_member:
            owned = self._membership.reconciling.owned
        self.state.on_answer(
            commit,
            messages.commit_results(answer),
            (answer.error_code, answer.error_message),
            retriable=lambda code: from_code(code).retriable,
            owned=owned,
        )

    def _tell(self, commit: Commit, cause: StrandlineError | None) -> None:
        if commit.committed and self.on_committed is not None:
            self._remember_names(commit.committed)
            called = self._topic_names
            found = {(called.get(k[0], ""), k[1]): at for k, at in commit.committed.items()}
            self.on_committed(found)
        if commit.refused:
            refusal = self._refusal(commit)
            refusal.may_have_been_written = commit.in_doubt
            self._fail(commit, refusal)
        elif not commit.is_settled:
            names = self._names(commit.offsets)
            why = "" if cause is None else f": {describe(cause)}"
            late = OperationTimedOut(
                f"no answer has said in time that the offsets of {names} are committed{why}; they "
                "may be",
                cause,
            )
            late.may_have_been_written = True
            self._fail(commit, late)
        else:
            result = self._results.pop(commit, None)
            if result is not None:
                result.set_result(None)

    def _refusal(self, commit: Commit) -> StrandlineError:
        key, (code, message) = next(iter(commit.refused.items()))
        names = self._names(commit.refused)
        if code == GONE or fate(code, retriable=False) in (Fate.LOST, Fate.STALE):
            why = "" if code == GONE else f" ({describe(from_code(code, message))})"
            what = "may be committed by a try that was not answered, and are not tried again"
            return CommitFailed(
                f"the offsets of {names} {what if commit.in_doubt else 'were not committed'}: the "
                f"group has given them to others, or is about to{why}; who owns them now reads on "
                f"from what was committed last"
            )
        if code == UnknownTopicId.code:
            rest = (
                "" if not commit.committed else f"; those of {self._names(commit.committed)} were"
            )
            return UnknownTopicId(f"the offsets of {names} were not committed: {message}{rest}")
        return from_code(code, f"{self._names([key])}: {message}")

    def _remember_names(self, keys: Iterable[PartitionKey]) -> None:
        view = self._session.cluster.view
        for topic_id, _ in keys:
            if (topic := view.by_id.get(topic_id)) is not None:
                self._topic_names[topic_id] = topic.name
            elif topic_id in view.former_names:  # deleted before the commit began
                self._topic_names[topic_id] = view.former_names[topic_id]

    def _names(self, keys: Iterable[PartitionKey]) -> str:
        self._remember_names(keys)
        names = self._topic_names
        return ", ".join(
            f"{names.get(topic_id) or topic_id.hex()}:{partition}"
            for topic_id, partition in sorted(keys)
        )

    # Asking.

    async def fetch_once(
        self, keys: Collection[PartitionKey], timeout_s: float, *, by_member: bool
    ) -> Fetched:
        """Fetches the committed offsets in one try.

        An offset is -1 if an answer without error has none (P-116).
        """
        member_id = self._options.member_id if by_member else ""
        epoch = self._membership.epoch if by_member else NO_EPOCH
        try:
            answer = await self._coordinator.call(
                lambda stub: stub.OffsetFetch,
                messages.fetch_request(
                    self._options.group_id,
                    member_id,
                    epoch,
                    keys,
                    require_stable=self._options.require_stable,
                ),
                timeout_s=timeout_s,
                returns=committed_offsets_pb2.OffsetFetchResponse,
            )
        except StrandlineError as error:
            return Fetched({}, dict.fromkeys(keys, error))
        fetched = Fetched({}, {})
        for group in answer.groups:
            if group.error_code != NONE:
                whole = from_code(group.error_code, group.error_message)
                self._coordinator.failed(whole)
                return Fetched({}, dict.fromkeys(keys, whole))
            for topic in group.topics:
                for p in topic.partitions:
                    key = (topic.topic_id, p.partition)
                    if p.error_code != NONE:
                        fetched.failures[key] = from_code(p.error_code, p.error_message)
                        continue
                    fetched.found[key] = CommitOffset(
                        p.committed_offset, p.committed_leader_epoch, p.committed_metadata
                    )
        for key in keys:
            if key not in fetched.found and key not in fetched.failures:
                fetched.failures[key] = CoordinatorNotAvailable("it left that out")
        return fetched

    async def fetched(
        self, keys: Collection[PartitionKey], timeout_s: float
    ) -> dict[PartitionKey, CommitOffset]:
        """Fetches the committed offsets with retries. Raises OperationTimedOut or a final error."""
        deadline_ms = self._now_ms() + timeout_s * 1000
        backoff = Backoff(max_ms=BACKOFF_MAX_MS)
        self._remember_names(keys)
        while True:
            left_s = (deadline_ms - self._now_ms()) / 1000
            fetched = await self.fetch_once(keys, max(0.001, left_s), by_member=False)
            if not fetched.failures:
                return fetched.found
            key, cause = next(iter(fetched.failures.items()))
            if isinstance(cause, UnknownTopicId):
                if key[0] in self._deleted:
                    raise UnknownTopicId(f"{self._names([key])}: the topic was deleted")
                self._session.cluster.request_refresh()  # it may have been deleted
            final = BrokerError | CallNotServed | ClientClosed
            if isinstance(cause, final) and not cause.retriable:
                raise cause
            wait_s = backoff.next_ms(self._session.runtime.rng.random()) / 1000
            if self._now_ms() + wait_s * 1000 >= deadline_ms:
                raise OperationTimedOut(
                    f"the committed offsets of {self._names(keys)} did not come within "
                    f"{timeout_s * 1000:.0f} ms: {describe(cause)}",
                    cause,
                )
            await asyncio.sleep(wait_s)
