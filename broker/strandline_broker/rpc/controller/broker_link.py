"""The controller's calls to brokers: the push stream and Identify."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.controller.broker_calls import Identified
from strandline_broker.rpc.cluster.push_codec import answer_from_wire
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import push_pb2
from strandline_proto.v1.services_pb2_grpc import ReplicaServiceStub

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    import grpc.aio

    from strandline_broker.core.controller.log.state import Broker
    from strandline_broker.core.controller.push import MetadataDelta
    from strandline_broker.core.push_answer import PushAnswer
    from strandline_broker.rpc.cluster.push_codec import PushTranslator
    from strandline_proto.v1.services_pb2_grpc import ReplicaServiceAsyncStub
    from strandline_runtime.runtime import Network

    Call = grpc.aio.StreamStreamCall[push_pb2.LeaderAndIsrRequest, push_pb2.LeaderAndIsrResponse]

LARGE: Final = 1000
"""Number of partitions that take about 10 ms to translate. A larger envelope is translated in a
thread.
"""


class BrokerLinks:
    def __init__(self, network: Network, translate: PushTranslator, thread: Executor) -> None:
        """`thread` is for what would keep the loop waiting."""
        self._network = network
        self._translate = translate
        self._thread = thread

    def __call__(self, broker: Broker) -> BrokerLink:
        endpoint = broker.inter_broker_endpoint
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        channel = self._network.channel(f"{host}:{endpoint.port}")
        return BrokerLink(channel, broker, self._translate, self._thread)


class BrokerLink:
    def __init__(
        self,
        channel: grpc.aio.Channel,
        broker: Broker,
        translate: PushTranslator,
        thread: Executor,
    ) -> None:
        self._channel = channel
        self._stub: ReplicaServiceAsyncStub = ReplicaServiceStub(channel)
        self._broker = broker
        self._translate = translate
        self._thread = thread

    def push(self) -> PushCall:
        translate = partial(self._translate, receiver=self._broker)
        return PushCall(self._stub.LeaderAndIsr(), translate, self._thread)

    async def identify(self, *, timeout_s: float) -> Identified:
        found = await self._stub.Identify(push_pb2.IdentifyRequest(), timeout=timeout_s)
        return Identified(found.cluster_id, BrokerId(found.broker_id), found.incarnation_id)

    async def close(self) -> None:
        await self._channel.close()


class PushCall:
    def __init__(
        self,
        call: Call,
        translate: Callable[[MetadataDelta], push_pb2.LeaderAndIsrRequest],
        thread: Executor,
    ) -> None:
        self._call = call
        self._translate = translate
        self._thread = thread

    async def prepare(self, envelope: MetadataDelta) -> Callable[[], Awaitable[None]]:
        return partial(self._call.write, await self._translated(envelope))

    async def _translated(self, envelope: MetadataDelta) -> push_pb2.LeaderAndIsrRequest:
        if sum(len(topic.partitions) for topic in envelope.topics) <= LARGE:
            return self._translate(envelope)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._translate, envelope)

    async def read(self) -> PushAnswer | None:
        answer = await self._call.read()
        if not isinstance(answer, push_pb2.LeaderAndIsrResponse):
            return None
        return answer_from_wire(answer)

    def cancel(self) -> None:
        self._call.cancel()
