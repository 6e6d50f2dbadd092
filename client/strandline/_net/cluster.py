"""Keeps the view of the cluster fresh: leaders of partitions and addresses of brokers.

A caller that meets a stale leader requests a refresh and waits for it. Refreshes follow each other
at 20 to 50 ms at first, so that a failover costs little, then slower. A paused broker does not
delay them: after a moment the next broker is asked as well, and the first answer counts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline._core.backoff import Backoff
from strandline._core.cluster_view import Changes, ClusterView, TopicView
from strandline._net.arguments import text
from strandline.errors import (
    BrokerUnreachable,
    InconsistentClusterId,
    NoBrokerReachable,
    OperationTimedOut,
    StrandlineError,
    UnknownTopicOrPartition,
    describe,
    from_code,
)
from strandline_proto.errors import InconsistentClusterId as WireInconsistentClusterId
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline._net.connections import Connections
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from strandline_runtime.runtime import Runtime

Answer = TypeVar("Answer")

HEDGE_S: Final = 0.1
ASK_TIMEOUT_S: Final = 2.0
LOOK_TIMEOUT_S: Final = 5.0
"""Time for one broker to list all topics of a large cluster; then another is asked."""
METADATA_MAX_AGE_S: Final = 300.0
"""Kafka's metadata.max.age.ms: the longest delay of news that no error reveals, such as new
partitions of a topic.
"""
UNKNOWN_TOPIC_S: Final = 2.0
"""Time after which an unknown topic does not exist: brokers learn new ones in milliseconds."""

UNKNOWN_PARTITION_S: Final = 1.0
"""Time after which a missing partition does not exist: a new one would be known."""


class Cluster:
    """The view, and the task that refreshes it."""

    def __init__(
        self, runtime: Runtime, connections: Connections, bootstrap: tuple[str, ...]
    ) -> None:
        self.view = ClusterView()
        self.max_age_s = METADATA_MAX_AGE_S
        self.watchers: list[Callable[[Changes], None]] = []
        self._runtime = runtime
        self._connections = connections
        self._bootstrap = bootstrap
        self._names: dict[str, None] = {}
        self._ids: dict[bytes, None] = {}
        """Topics that are known by id alone."""
        self._wanted = asyncio.Event()
        self._backoff = Backoff()
        self._waiters: list[asyncio.Future[Changes]] = []
        self._ended: StrandlineError | None = None
        self._failed: dict[str, float] = {}
        self._last_error: StrandlineError | None = None
        self._refreshed_at = float("-inf")

    def address_of(self, broker_id: int) -> str | None:
        broker = self.view.brokers.get(broker_id)
        return None if broker is None else broker.address

    def request_refresh(self) -> None:
        """Requests a refresh of a stale view; the watchers get the changes."""
        self._wanted.set()

    async def run(self) -> None:
        """Refreshes on request, and when the view reaches its maximum age."""
        while True:
            try:
                async with asyncio.timeout(self.max_age_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            if self._runtime.clock.monotonic() - self._refreshed_at > 1.0:
                self._backoff.reset()
            asked_before = len(self._waiters)
            changes = await self._refresh()
            self._refreshed_at = self._runtime.clock.monotonic()
            if changes is None:
                self._wanted.set()
            else:
                if changes.moved:
                    self._backoff.reset()
                for waiter in self._waiters[:asked_before]:
                    if not waiter.done():
                        waiter.set_result(changes)
                del self._waiters[:asked_before]
            await asyncio.sleep(self._backoff.next_ms(self._runtime.rng.random()) / 1000)

    async def refresh(self, timeout_s: float) -> Changes:
        """Waits for an answer to a request sent after this call. Raises NoBrokerReachable."""
        if self._ended is not None:
            raise self._ended
        waiter: asyncio.Future[Changes] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        except TimeoutError:
            raise self.unreachable(timeout_s) from None

    def end(self, error: StrandlineError) -> None:
        """Ends refreshes: every waiter, present or later, gets the error."""
        self._ended = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)

    async def check_bootstrap(self, timeout_s: float) -> None:
        """Raises NoBrokerReachable if none of the addresses has a name that resolves.

        A wait helps if a broker is not up yet, but not if a name is misspelt.
        """
        network = self._runtime.network
        try:
            async with asyncio.timeout(timeout_s):
                for address in self._bootstrap:
                    if await network.resolves(address.rpartition(":")[0].strip("[]")):
                        return
        except TimeoutError:
            return  # a slow name service; the refresh has the same deadline
        names = ", ".join(address.rpartition(":")[0] for address in self._bootstrap)
        raise NoBrokerReachable(f"bootstrap_servers: the host does not resolve: {names}")

    def unreachable(self, timeout_s: float) -> NoBrokerReachable:
        why = "" if self._last_error is None else f": {describe(self._last_error)}"
        asked = ", ".join(self._candidates())
        return NoBrokerReachable(
            f"no broker answered within {timeout_s * 1000:.0f} ms, asked {asked}{why}",
            self._last_error,
        )

    async def topic(self, name: str, timeout_s: float, partition: int | None = None) -> TopicView:
        """Returns the topic of this name once it has the partition, which may be new.

        The topic is refreshed from now on. Raises UnknownTopicOrPartition.
        """
        text("topic", name)
        clock = self._runtime.clock.monotonic
        started = clock()
        is_new = False
        try:
            while True:
                is_new = is_new or name not in self._names  # another may have struck it
                self._names[name] = None
                topic = self.view.topics.get(name)
                if topic is not None and topic.has(partition):
                    return topic
                elapsed = clock() - started
                changes = await self.refresh(max(0.0, timeout_s - elapsed))
                code = changes.errors.get(name)
                if code is not None and not from_code(code).retriable:
                    raise from_code(code, f"topic {name!r} is refused by the broker")
                elapsed = clock() - started
                if name in changes.unknown and elapsed >= min(UNKNOWN_TOPIC_S, timeout_s):
                    raise UnknownTopicOrPartition(f"topic {name!r} does not exist; create it first")
                known = self.view.topics.get(name)
                is_late = elapsed >= min(UNKNOWN_PARTITION_S, timeout_s)
                if is_late and known is not None and known.has(None) and not known.has(partition):
                    raise UnknownTopicOrPartition(
                        f"topic {name!r} has {len(known.partitions)} partitions; "
                        f"there is no {partition}"
                    )
        except BaseException:
            if is_new:  # else it is asked for as long as the client lives
                self._names.pop(name, None)
            raise

    def follow(self, *names: str) -> None:
        """Refreshes these topics from now on, existing or not."""
        self._names.update(dict.fromkeys(names))

    async def learn(self, topic_ids: Iterable[bytes], timeout_s: float) -> None:
        """Looks up the names of these topics, and refreshes them from now on."""
        wanted = set(topic_ids)
        if unknown := wanted - self.view.by_id.keys():
            self._ids.update(dict.fromkeys(sorted(unknown)))
            try:
                await self.refresh(timeout_s)
            finally:
                for topic_id in unknown:
                    self._ids.pop(topic_id, None)
        self.follow(*(t.name for i in sorted(wanted) if (t := self.view.by_id.get(i)) is not None))

    async def ask_any(
        self,
        method: Callable[[BrokerServiceAsyncStub], Callable[..., Any]],
        request: Any,
        *,
        timeout_s: float,
        returns: type[Answer],
        attempt_s: float | None = None,
    ) -> Answer:
        """Makes one unary call to any broker that answers; tries the next if one is unreachable.

        With `attempt_s`, a silent broker also passes the call on to the next. The call must be safe
        to repeat.
        """
        clock = self._runtime.clock.monotonic
        deadline = clock() + timeout_s
        backoff = Backoff()
        while True:
            for address in self._candidates():
                left_s = deadline - clock()
                wait_s = left_s if attempt_s is None else min(left_s, attempt_s)
                try:
                    return await self._connections.call(
                        address, method, request, timeout_s=wait_s, returns=returns
                    )
                except (BrokerUnreachable, OperationTimedOut) as error:
                    self._last_error = error
                    self._failed[address] = clock()
                    if isinstance(error, OperationTimedOut) and wait_s >= left_s:
                        raise
            wait_s = backoff.next_ms(self._runtime.rng.random()) / 1000
            if clock() + wait_s >= deadline:
                raise self.unreachable(timeout_s)
            await asyncio.sleep(wait_s)

    # Asking.

    def _candidates(self) -> list[str]:
        """Addresses to ask, the most likely ones first."""
        known = [broker.address for broker in self.view.brokers.values()]
        self._runtime.rng.shuffle(known)
        both = list(dict.fromkeys([*known, *self._bootstrap]))
        return sorted(both, key=lambda address: self._failed.get(address, float("-inf")))

    async def _refresh(self) -> Changes | None:
        """Applies and returns the first answer of several brokers; None if there is none."""
        answers: asyncio.Queue[metadata_pb2.MetadataResponse | None] = asyncio.Queue()
        candidates = self._candidates()
        failures = 0
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []
            try:
                for address in candidates:
                    tasks.append(group.create_task(self._ask(address, answers)))
                    try:
                        async with asyncio.timeout(HEDGE_S):
                            answer = await answers.get()
                    except TimeoutError:
                        continue
                    if answer is not None and (changes := self._apply(answer)) is not None:
                        return changes
                    failures += 1
                while failures < len(tasks):
                    answer = await answers.get()
                    if answer is not None and (changes := self._apply(answer)) is not None:
                        return changes
                    failures += 1
            finally:
                for task in tasks:
                    task.cancel()
        return None

    async def _ask(
        self, address: str, answers: asyncio.Queue[metadata_pb2.MetadataResponse | None]
    ) -> None:
        request = metadata_pb2.MetadataRequest(
            only_named=True, topics=[metadata_pb2.TopicRef(name=name) for name in self._names]
        )
        for topic_id in self._ids:
            request.topics.add(topic_id=topic_id)
        try:
            answer = await self._connections.call(
                address,
                lambda stub: stub.Metadata,
                request,
                timeout_s=ASK_TIMEOUT_S,
                returns=metadata_pb2.MetadataResponse,
            )
        except StrandlineError as error:
            self._last_error = error
            self._failed[address] = self._runtime.clock.monotonic()
            answers.put_nowait(None)
        else:
            self._failed.pop(address, None)
            answers.put_nowait(answer)

    def _apply(self, answer: metadata_pb2.MetadataResponse) -> Changes | None:
        try:
            changes = self.view.apply(answer)
        except WireInconsistentClusterId as error:
            self._last_error = InconsistentClusterId(str(error))
            return None
        for watcher in self.watchers:
            watcher(changes)
        return changes
