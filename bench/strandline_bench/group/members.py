"""Members of a group for the benchmarks: consumers that poll, and sessions without a consumer."""

import asyncio
import contextlib
import copy
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from strandline.types import TopicPartition
    from strandline_proto.v1 import groups_pb2

POLL_MS: Final = 200
SETTLED_S_MAX: Final = 60.0
JOINING_MAX: Final = 20
"""Members that look for their coordinators at the same time."""


class Member:
    """A consumer of a group that polls all the time, and reports its assignment."""

    def __init__(self, bootstrap: str, group: str, topic: str, changed: asyncio.Event) -> None:
        from strandline import Consumer

        self.owned: frozenset[TopicPartition] = frozenset()
        self.read_at: dict[TopicPartition, float] = {}
        """Time at which each partition was first read since `forget`."""
        self._changed = changed
        self._topic = topic
        self.consumer: Consumer = Consumer(
            bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        )
        self._polling: asyncio.Task[None] | None = None

    async def start(self) -> Self:
        await self.consumer.start()
        self.consumer.subscribe(topics=[self._topic], listener=self)
        self._polling = asyncio.create_task(self._poll())
        return self

    async def stop(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self.consumer.stop()

    def forget(self) -> None:
        self.read_at.clear()

    async def _poll(self) -> None:
        while True:
            found = await self.consumer.getmany(timeout_ms=POLL_MS)
            now = time.monotonic()
            for partition in found:
                self.read_at.setdefault(partition, now)

    async def on_partitions_revoked(self, revoked: "Iterable[TopicPartition]") -> None:
        self.owned -= frozenset(revoked)
        self._changed.set()

    async def on_partitions_assigned(self, assigned: "Iterable[TopicPartition]") -> None:
        self.owned |= frozenset(assigned)
        self._changed.set()

    async def on_partitions_lost(self, lost: "Iterable[TopicPartition]") -> None:
        self.owned -= frozenset(lost)
        self._changed.set()


async def settled(members: list[Member], partitions: int, changed: asyncio.Event) -> float:
    """The time at which every partition had one owner, and no member had two more than another."""

    def is_settled() -> bool:
        owned = [len(member.owned) for member in members]
        together = frozenset().union(*(member.owned for member in members))
        return sum(owned) == len(together) == partitions and max(owned) - min(owned) <= 1

    async with asyncio.timeout(SETTLED_S_MAX):
        while not is_settled():
            changed.clear()
            await changed.wait()
    return time.monotonic()


@contextlib.asynccontextmanager
async def sessions(
    bootstrap: list[str], groups: int, members: int, topic: str, *, interval_s: float
) -> AsyncIterator["Sessions"]:
    """Streams of so many members in so many groups to their coordinators, without consumers."""
    found = Sessions(bootstrap, topic, interval_s)
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(found.run(f"bench-members-{number % groups}", f"member-{number}"))
            for number in range(members)
        ]
        try:
            yield found
        finally:
            for task in running:
                task.cancel()
    await found.close()


class Sessions:
    """Streams of members that only send heartbeats."""

    def __init__(self, bootstrap: list[str], topic: str, interval_s: float) -> None:
        self.joined = 0
        self.errors: dict[str, int] = {}
        self._topic = topic
        self._interval_s = interval_s
        self._addresses = bootstrap
        self._channels: dict[str, Any] = {}
        self._turns = asyncio.Semaphore(JOINING_MAX)
        self._coordinators: dict[str, str] = {}

    async def run(self, group: str, member: str) -> None:
        import grpc.aio

        from strandline_proto.v1 import groups_pb2

        async with self._turns:
            address = self._coordinators.get(group) or await self._coordinator(group)
            self._coordinators[group] = address
        beat = groups_pb2.ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=0, rebalance_timeout_ms=60_000
        )
        beat.subscribed_topic_names.names.append(self._topic)
        beat.topic_partitions.SetInParent()
        session = _Session(self._stub(address).GroupSession(), beat)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(session.read(self._on_joined, self._count))
            reading.add_done_callback(lambda _: session.joined.set())
            while not reading.done():
                # The broker may end the stream at any moment; `read` gets its reason.
                with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await session.say()
                # A repeat before the answer would join a second time.
                await session.joined.wait()
                await session.until_due(self._interval_s)

    def _on_joined(self) -> None:
        self.joined += 1

    async def _coordinator(self, group: str) -> str:
        from strandline_proto.v1 import groups_pb2

        request = groups_pb2.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        while True:
            answer = await self._stub(self._addresses[0]).FindCoordinator(request)
            [found] = answer.coordinators
            if found.error_code == 0:
                return f"{found.host}:{found.port}"
            await asyncio.sleep(0.1)

    def _count(self, error: str) -> None:
        self.errors[error] = self.errors.get(error, 0) + 1

    def _stub(self, address: str) -> Any:
        import grpc.aio

        from strandline_proto.v1 import services_pb2_grpc

        if address not in self._channels:
            self._channels[address] = grpc.aio.insecure_channel(address)
        return services_pb2_grpc.BrokerServiceStub(self._channels[address])

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


class _Session:
    """One member's stream."""

    def __init__(self, call: Any, join: "groups_pb2.ConsumerGroupHeartbeatRequest") -> None:
        from strandline_proto.v1 import groups_pb2

        self.joined = asyncio.Event()
        """Set at the first answer, or at the end."""
        self._call = call
        self._wake = asyncio.Event()
        self._state = groups_pb2.GroupSessionRequest(stream_generation=1, seq=0, heartbeat=join)

    async def say(self) -> None:
        self._state.seq += 1
        said = copy.copy(self._state)
        if self.joined.is_set():
            # Known state is not sent again: a full heartbeat gets a full answer.
            self._state.heartbeat.ClearField("topic_partitions")
        await self._call.write(said)

    async def until_due(self, interval_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(interval_s):
                await self._wake.wait()
        self._wake.clear()

    async def read(self, on_joined: Callable[[], None], on_error: Callable[[str], None]) -> None:
        from strandline_proto.v1 import groups_pb2

        beat = self._state.heartbeat
        while True:
            answer = await self._call.read()
            if not isinstance(answer, groups_pb2.GroupSessionResponse):
                on_error("stream ended")
                return
            if not answer.HasField("heartbeat"):
                continue
            if answer.heartbeat.error_code != 0:
                on_error(str(answer.heartbeat.error_code))
                return
            if not self.joined.is_set():
                on_joined()
                self.joined.set()
            self._state.seen_push = answer.push or self._state.seen_push
            next_beat = groups_pb2.ConsumerGroupHeartbeatRequest(
                group_id=beat.group_id,
                member_id=beat.member_id,
                member_epoch=answer.heartbeat.member_epoch,
                rebalance_timeout_ms=-1,
            )
            if answer.heartbeat.HasField("assignment"):
                next_beat.topic_partitions.CopyFrom(answer.heartbeat.assignment)
                self._wake.set()
            beat.CopyFrom(next_beat)


async def times(count: int, one: Callable[[int], Any]) -> list[float]:
    """Milliseconds of each of so many calls, one after the other."""
    taken = []
    for number in range(count):
        began = time.monotonic()
        await one(number)
        taken.append((time.monotonic() - began) * 1e3)
    return taken
