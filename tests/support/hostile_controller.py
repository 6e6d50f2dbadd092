"""A controller in memory that anybody may send anything: its services without a network."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import grpc

from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.balance import BalanceSettings
from strandline_broker.hosts.controller.controller import Controller
from strandline_broker.hosts.controller.pipeline import replay_log
from strandline_broker.hosts.controller.settings import ControllerSettings, Identity
from strandline_broker.rpc.cluster.push_codec import PushTranslator
from strandline_broker.rpc.controller.broker_link import BrokerLinks
from strandline_broker.rpc.controller.brokers import BrokersRpc
from strandline_broker.rpc.controller.configs import AlterConfigsRpc
from strandline_broker.rpc.controller.elections import ElectionsRpc
from strandline_broker.rpc.controller.partitions import PartitionsRpc
from strandline_broker.rpc.controller.reassignments import ReassignmentsRpc
from strandline_broker.rpc.controller.service import Service
from strandline_broker.rpc.controller.topics import ClusterRpc, TopicsRpc
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import common_pb2, controller_pb2, metadata_pb2
from strandline_runtime.real import real_runtime
from strandline_runtime.runtime import Probe
from support.controller_cluster import CLUSTER, DEFAULTS, SERVER_KEYS, SESSION_MS, STORE
from support.grpc_only import GrpcOnly
from support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from google.protobuf.message import Message

    from strandline_proto.v1 import push_pb2

BROKERS = (1, 2, 3)


class Ended(BaseException):
    """The process would have ended here."""


def _end(why: str) -> NoReturn:
    raise Ended(why)


class _AtOnce(Executor):
    """Work is done where it is submitted: nothing here waits for a disk."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the result
            done.set_exception(error)
        return done


class _Unforeseen(Exception):
    """The call ended in INTERNAL."""


class _Context:
    """Of one call."""

    def __init__(self) -> None:
        self.written: list[Message] = []

    def done(self) -> bool:
        return False

    async def write(self, message: Message) -> None:
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise _Unforeseen(details)


class _Pushed:
    """A push stream to a broker that answers what the test says, and then nothing."""

    def __init__(self, answers: list[push_pb2.LeaderAndIsrResponse]) -> None:
        self._answers = answers

    async def write(self, message: Message) -> None:
        """It takes what it is told."""

    async def read(self) -> push_pb2.LeaderAndIsrResponse:
        if not self._answers:
            await asyncio.get_running_loop().create_future()
        return self._answers.pop(0)

    def cancel(self) -> None:
        """The stream is over."""


@dataclass
class _Channel:
    answers: list[push_pb2.LeaderAndIsrResponse]

    def stream_stream(self, *_: Any, **__: Any) -> Callable[[], _Pushed]:
        return lambda: _Pushed(self.answers)

    def unary_unary(self, *_: Any, **__: Any) -> Callable[..., Any]:
        async def silent(*_: Any, **__: Any) -> NoReturn:
            raise grpc.RpcError

        return silent

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class _Network(GrpcOnly):
    answers: list[push_pb2.LeaderAndIsrResponse] = field(default_factory=list)

    async def probe(self, host: str, port: int, timeout_s: float) -> Probe:
        return Probe.SILENT

    async def resolves(self, host: str) -> bool:
        return True

    def channel(self, target: str, client_id: str | None = None) -> Any:
        return _Channel(self.answers)

    def server(self, connections_max: int = 0) -> Any:
        raise AssertionError("calls come without a network")


class HostileRun:
    """A controller that runs, with three live brokers and two topics."""

    def __init__(self) -> None:
        self.network = _Network()
        self.store = MemoryStore()
        runtime = replace(
            real_runtime("controller"),
            exit=_end,
            network=self.network,
            rng=random.Random(0),
            serial_executor=lambda name: _AtOnce(),
        )
        state = ControllerState()
        replay_log(state, self.store)
        identity = Identity(node_id=BrokerId(100), cluster_id=CLUSTER, store_id=STORE)
        settings = ControllerSettings(
            session_ms=SESSION_MS,
            min_insync_replicas=2,
            topic_defaults=DEFAULTS,
            server_keys=SERVER_KEYS,
            balance=BalanceSettings(enabled=False, interval_s=300, percentage=10),
        )
        self.controller = Controller(
            runtime,
            identity,
            settings,
            state,
            self.store,
            BrokerLinks(self.network, PushTranslator(identity), _AtOnce()),
        )
        self.service = Service(
            runtime,
            ServerMetrics(runtime.metrics, runtime.clock),
            BrokersRpc(self.controller),
            TopicsRpc(self.controller),
            AlterConfigsRpc(self.controller),
            ElectionsRpc(self.controller),
            PartitionsRpc(self.controller),
            ReassignmentsRpc(self.controller),
            ClusterRpc(self.controller, pid=1, host="127.0.0.1", port=9090, build="test"),
        )
        self.running: asyncio.Task[None] | None = None

    async def call(self, method: str, *requests: Message) -> list[Message]:
        """The answers; several requests go over one stream."""
        context = _Context()
        handler = getattr(self.service, method)
        if method == "BrokerHeartbeat":
            await handler(_each(requests), context)
            return context.written
        return [await handler(request, context) for request in requests]

    async def set_up(self) -> None:
        for b in BROKERS:
            here = common_pb2.Endpoint(listener="INTERNAL", host="127.0.0.1", port=9000 + b)
            registration = controller_pb2.BrokerRegistrationRequest(
                broker_id=b,
                incarnation_id=f"incarnation-{b}",
                directory_id=f"dir-{b}",
                flush_policy="replicated",
                listeners=[here],
                metadata_offset=-1,
                previous_broker_epoch=-1,
            )
            await self.call("BrokerRegistration", registration)
            await self.call("BrokerHeartbeat", self.heartbeat(b))
        await self.create("t", partitions=2)
        await self.create("u", partitions=1)

    def heartbeat(self, broker_id: int) -> controller_pb2.BrokerHeartbeatRequest:
        broker = self.controller.state.brokers[BrokerId(broker_id)]
        return controller_pb2.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=self.controller.state.last_offset,
        )

    async def create(self, name: str, *, partitions: int) -> Message:
        topic = metadata_pb2.NewTopic(name=name, partitions=partitions, replication_factor=-1)
        (answer,) = await self.call(
            "CreateTopics", metadata_pb2.CreateTopicsRequest(topics=[topic])
        )
        return answer


async def _each(requests: tuple[Message, ...]) -> AsyncIterator[Message]:
    for request in requests:
        yield request


@asynccontextmanager
async def hostile_run() -> AsyncIterator[HostileRun]:
    run = HostileRun()
    await run.controller.start()
    async with asyncio.TaskGroup() as tasks:
        run.running = tasks.create_task(run.controller.run())
        await asyncio.sleep(0)
        await run.set_up()
        try:
            yield run
            await asyncio.sleep(0)
            assert not run.running.done(), "the controller has ended"
        finally:
            run.running.cancel()
    run.controller.close()
