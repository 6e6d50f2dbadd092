"""The controller's side of a push stream, against a broker that answers as the test says."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.controller import push
from strandline_broker.hosts.controller import pusher
from strandline_broker.hosts.controller.pusher import Pusher, PushPlan
from strandline_broker.hosts.controller.settings import Identity
from strandline_broker.rpc.cluster.push_codec import PushTranslator
from strandline_broker.rpc.controller import broker_link
from strandline_broker.rpc.controller.broker_link import BrokerLinks
from strandline_proto.errors import StaleBrokerEpoch
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import push_pb2, services_pb2_grpc
from strandline_runtime.real import real_runtime
from support.controller_cluster import B1, B2, Cluster
from support.scripted_controller import WAIT_S, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from strandline_broker.core.controller.log.state import Broker
    from strandline_broker.core.push_answer import PushAnswer

Request = push_pb2.LeaderAndIsrRequest
ANSWER_S = 0.4


class Receiver(services_pb2_grpc.ReplicaServiceServicer):
    """`script` holds the next answers; by default everything is applied."""

    def __init__(self) -> None:
        self.streams = 0
        self.script: list[dict[str, Any] | None] = []
        """Fields of each next answer; None: no answer."""
        self.received: asyncio.Queue[Request] = asyncio.Queue()
        self.asked = 0
        """How often somebody wanted to know who is there."""
        self.not_there = 0
        """For how many more of them nobody is."""

    async def LeaderAndIsr(self, requests: Any, context: Any) -> Any:
        self.streams += 1
        async for request in requests:
            self.received.put_nowait(request)
            fields = self.script.pop(0) if self.script else {}
            if fields is not None:
                offset = request.metadata_offset
                answer = {"metadata_offset": offset, "applied_metadata_offset": offset} | fields
                yield push_pb2.LeaderAndIsrResponse(**answer)

    async def Identify(self, request: Any, context: Any) -> Any:
        self.asked += 1
        self.not_there -= 1
        if self.not_there >= 0:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "nobody is there")
        return push_pb2.IdentifyResponse()

    async def _refuses(self, request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no call of a controller")

    AddPartitionsToTxn = WriteTxnMarkers = _refuses

    async def next(self) -> Request:
        async with asyncio.timeout(WAIT_S):
            return await self.received.get()


class Pushing:
    """A controller's state with broker 1 in it, and the pusher that tells the broker of it."""

    def __init__(self, port: int) -> None:
        self.cluster = Cluster()
        here = (Endpoint("INTERNAL", "127.0.0.1", port),)
        self.cluster.register(B1, listeners=here)
        self.answers: list[tuple[int, bool]] = []
        self.snapshots = 0
        runtime = real_runtime("controller")
        identity = Identity(node_id=BrokerId(100), cluster_id="cluster", store_id="store")
        plan = PushPlan(
            runtime=runtime,
            snapshot=self._snapshot,
            dial=BrokerLinks(
                runtime.network,
                PushTranslator(identity),
                runtime.serial_executor("push-translation"),
            ),
            on_answer=self._on_answer,
            answer_timeout_s=ANSWER_S,
            progressed_ms=self._progressed_ms,
        )
        self.goes_on = 0
        """How many more times the broker is found to have applied something just now."""
        self._clock = runtime.clock
        self.pusher = Pusher(plan)

    def _snapshot(self) -> push.MetadataDelta:
        self.snapshots += 1
        return push.snapshot(self.cluster.state)

    def _progressed_ms(self, broker_id: BrokerId) -> int | None:
        assert broker_id == B1
        self.goes_on -= 1
        return int(self._clock.monotonic() * 1000) if self.goes_on >= 0 else None

    def _on_answer(self, receiver: Broker, answer: PushAnswer, *, full: bool) -> None:
        assert receiver.broker_id == B1
        self.answers.append((answer.metadata_offset, full))

    def decide(self) -> int:
        """Something changes; the offset of its envelope."""
        self.cluster.register(B2)
        self.pusher.publish(self.cluster.envelopes[-1])
        return self.cluster.state.last_offset


@asynccontextmanager
async def pushing() -> AsyncIterator[tuple[Pushing, Receiver]]:
    receiver = Receiver()
    server = real_runtime("broker-1").network.server()
    services_pb2_grpc.add_ReplicaServiceServicer_to_server(receiver, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    subject = Pushing(port)
    try:
        async with running(subject.pusher.run()):
            yield subject, receiver
    finally:
        await server.stop(None)


async def test_a_stream_begins_with_a_snapshot_and_goes_on_with_every_batch() -> None:
    async with pushing() as (subject, receiver):
        first = await receiver.next()
        assert (first.full, first.metadata_offset) == (True, subject.cluster.state.last_offset)
        before = first.metadata_offset
        for _ in range(3):
            offset = subject.decide()
            each = await receiver.next()
            assert (each.full, each.prev_metadata_offset) == (False, before)
            before = each.metadata_offset
            assert before == offset
        assert receiver.streams == 1


async def test_a_broker_that_sees_a_gap_gets_one_snapshot_on_the_same_stream() -> None:
    async with pushing() as (subject, receiver):
        await receiver.next()
        receiver.script = [{"want_full": True}]
        subject.decide()
        assert not (await receiver.next()).full
        again = await receiver.next()
        assert (again.full, again.metadata_offset) == (True, subject.cluster.state.last_offset)
        subject.decide()
        assert not (await receiver.next()).full
        assert receiver.streams == 1


async def test_two_envelopes_that_do_not_follow_are_mended_by_one_snapshot() -> None:
    async with pushing() as (subject, receiver):
        await receiver.next()
        receiver.script = [{"want_full": True}, {"want_full": True}]
        subject.decide()
        subject.decide()
        while not (await receiver.next()).full:
            pass
        offset = subject.decide()
        last = await receiver.next()
        assert (last.full, last.metadata_offset) == (False, offset)
        assert receiver.streams == 1


async def test_a_snapshot_that_is_refused_ends_the_stream() -> None:
    """Nothing else would help on this one; the next begins anew."""
    async with pushing() as (subject, receiver):
        await receiver.next()
        receiver.script = [{"want_full": True}, {"want_full": True}]
        subject.decide()
        assert [(await receiver.next()).full for _ in range(3)] == [False, True, True]
        assert receiver.streams == 2


async def test_another_incarnation_behind_the_address_ends_the_stream() -> None:
    """I-32, P-17."""
    async with pushing() as (_, receiver):
        receiver.script = [{"error_code": StaleBrokerEpoch.code}]
        await receiver.next()
        assert (await receiver.next()).full
        assert receiver.streams == 2


async def test_no_snapshot_is_made_for_a_broker_that_is_gone() -> None:
    async with pushing() as (subject, receiver):
        await receiver.next()
        made = subject.snapshots
        receiver.script, receiver.not_there = [{"error_code": StaleBrokerEpoch.code}], 3
        subject.decide()
        await receiver.next()
        assert (await receiver.next()).full
        assert (receiver.asked, subject.snapshots) == (4, made + 1)


async def test_a_broker_that_does_not_answer_is_called_anew() -> None:
    async with pushing() as (_, receiver):
        receiver.script = [None]
        await receiver.next()
        assert (await receiver.next()).full
        assert receiver.streams == 2


async def test_a_broker_that_goes_on_is_waited_for() -> None:
    """It applies a large envelope: sent again, all of that would only begin anew."""
    async with pushing() as (subject, receiver):
        receiver.script = [None]
        subject.goes_on = 3
        await receiver.next()
        assert (await receiver.next()).full
        assert subject.goes_on < 0, "it was waited for while it went on"
        assert receiver.streams == 2


async def test_more_than_may_wait_becomes_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pusher, "QUEUE_MAX", 2)
    async with pushing() as (subject, receiver):
        receiver.script = [None, None]
        first = await receiver.next()
        offsets = [subject.decide() for _ in range(6)]
        got = [await receiver.next()]
        while not got[-1].full:
            got.append(await receiver.next())
        assert got[-1].metadata_offset == offsets[-1] > first.metadata_offset


async def test_a_large_snapshot_comes_whole_and_before_what_follows_it() -> None:
    """It is translated on a thread: what is decided meanwhile waits its turn (I-81)."""
    async with pushing() as (subject, receiver):
        await receiver.next()
        cluster = subject.cluster
        cluster.unfence(B1)
        subject.pusher.publish(cluster.envelopes[-1])
        await receiver.next()
        cluster.topic("t", *[(B1,)] * (broker_link.LARGE + 1))
        subject.pusher.publish(cluster.envelopes[-1])
        created = cluster.state.last_offset
        offset = subject.decide()
        large, small = await receiver.next(), await receiver.next()
        assert (large.metadata_offset, small.metadata_offset) == (created, offset)
        assert len(large.leader_and_isr[0].partitions) == broker_link.LARGE + 1
        assert small.prev_metadata_offset == created


async def test_a_new_incarnation_has_a_stream_of_its_own() -> None:
    async with pushing() as (subject, receiver):
        first = await receiver.next()
        broker = subject.cluster.state.brokers[B1]
        newer = replace(broker, epoch=type(broker.epoch)(broker.epoch + 1))
        subject.pusher.on_registered(newer)
        second = await receiver.next()
        assert (second.full, second.broker_epoch) == (True, first.broker_epoch + 1)
        subject.pusher.on_unregistered(B1)
        subject.decide()
        assert receiver.received.empty()
