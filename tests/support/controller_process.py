"""A real controller process, and a broker that speaks to it over real gRPC but stores nothing.

The broker judges the controller's pushes by the rules of a real one (`MetadataCache`), so what it
has applied is what a broker would have applied.
"""

from __future__ import annotations

import asyncio
import signal
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.rpc.cluster.push_codec import envelope_from_wire
from strandline_proto.ids import BrokerEpoch
from strandline_proto.v1 import common_pb2, controller_pb2, metadata_pb2, push_pb2, truncations_pb2
from strandline_proto.v1.services_pb2_grpc import (
    ControllerServiceStub,
    add_ReplicaServiceServicer_to_server,
)
from support.envelopes import applied
from support.processes import free_ports
from support.server_forks import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_proto.v1.services_pb2_grpc import ControllerServiceAsyncStub
    from support.command_forks import Fork

WAIT_S = 120.0


def free_port() -> int:
    """No outgoing connection and no server on any port takes it while its process is down."""
    (port,) = free_ports(1)
    return port


@dataclass
class ControllerProcess:
    """One data directory and one address, over as many processes as the test starts."""

    directory: Path
    session_ms: int = 3000
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    _process: Fork | None = None

    def start(self) -> None:
        settings = {
            "node.id": "100",
            "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "log.dirs": str(self.directory / "controller"),
            "broker.session.timeout.ms": str(self.session_ms),
            **self.settings,
        }
        with (self.directory / "controller.log").open("ab") as log:
            self._process = start_server("controller", settings, log.fileno())

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        return self._end(signal.SIGTERM)

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def exit_status(self) -> int:
        """Of a process that is expected to end by itself."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, WAIT_S)

    def log(self) -> str:
        return (self.directory / "controller.log").read_text()

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        status = self._process.wait(WAIT_S)
        self._process = None
        return status

    @asynccontextmanager
    async def stub(self) -> AsyncIterator[ControllerServiceAsyncStub]:
        """Waits until the controller answers."""
        options = [
            ("grpc.initial_reconnect_backoff_ms", 20),
            ("grpc.min_reconnect_backoff_ms", 20),
            ("grpc.max_reconnect_backoff_ms", 100),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        target = f"127.0.0.1:{self.port}"
        async with grpc.aio.insecure_channel(target, options=options) as channel:
            stub: ControllerServiceAsyncStub = ControllerServiceStub(channel)
            await self.describe(stub)
            yield stub

    @staticmethod
    async def describe(
        stub: ControllerServiceAsyncStub,
    ) -> metadata_pb2.DescribeClusterResponse:
        return await stub.DescribeCluster(
            metadata_pb2.DescribeClusterRequest(), timeout=WAIT_S, wait_for_ready=True
        )


class PretendBroker:
    """One incarnation: it answers pushes and, while `beat` runs, sends heartbeats."""

    AddPartitionsToTxn = WriteTxnMarkers = None
    """Calls between brokers, which a controller never makes."""

    def __init__(self, controller: ControllerProcess, broker_id: int) -> None:
        self.broker_id = broker_id
        self.incarnation_id = f"{broker_id}-{uuid.uuid4()}"
        self.directory_id = f"dir-{broker_id}"
        self.epoch = -1
        self.cluster_id = ""
        self.metadata = MetadataCache()
        self.streams: list[list[push_pb2.LeaderAndIsrRequest]] = []
        """The envelopes received on each push stream."""
        self.answered: controller_pb2.BrokerHeartbeatResponse | None = None
        self.ask_for_full = 0
        """Answer so many envelopes with `want_full`, unapplied."""
        self.failing: list[tuple[bytes, int, int]] = []
        """(topic id, partition, error code) to report with every answer."""
        self.want_shut_down = False
        self.heartbeats = 0
        """How many were made: each has its number."""
        self.offline: list[controller_pb2.OfflineReplica] = []
        self.refused: list[truncations_pb2.RefusedTruncation] = []
        self.may_apply = asyncio.Event()
        """Cleared: envelopes are received, and wait to be applied."""
        self.may_apply.set()
        self._registered = asyncio.Event()
        self._controller = controller
        self._server: grpc.aio.Server | None = None
        self._port = 0
        self._news = asyncio.Condition()

    @property
    def received(self) -> list[push_pb2.LeaderAndIsrRequest]:
        return [envelope for stream in self.streams for envelope in stream]

    @property
    def view(self) -> MetadataView:
        return self.metadata.view

    async def listen(self) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_ReplicaServiceServicer_to_server(self, self._server)  # type: ignore[arg-type]
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        await self._server.start()

    async def stop_listening(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def register(
        self, stub: ControllerServiceAsyncStub, **fields: Any
    ) -> controller_pb2.BrokerRegistrationResponse:
        request = controller_pb2.BrokerRegistrationRequest(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
            directory_id=self.directory_id,
            flush_policy="replicated",
            pid=1,
            version="test",
            controller_epoch=-1,
            metadata_offset=-1,
            listeners=[common_pb2.Endpoint(listener="INTERNAL", host="127.0.0.1", port=self._port)],
            inter_broker_listener="INTERNAL",
            previous_broker_epoch=-1,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        response = await stub.BrokerRegistration(request, timeout=WAIT_S)
        if response.error_code == 0:
            self.epoch, self.cluster_id = response.broker_epoch, response.cluster_id
            self._registered.set()
        return response

    def heartbeat(self) -> controller_pb2.BrokerHeartbeatRequest:
        self.heartbeats += 1
        return controller_pb2.BrokerHeartbeatRequest(
            number=self.heartbeats,
            offline_replicas=self.offline,
            refused_truncations=self.refused,
            broker_id=self.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.metadata.applied_offset,
            want_fence=not self.metadata.has_snapshot,
            want_shut_down=self.want_shut_down,
        )

    async def beat(self, stub: ControllerServiceAsyncStub) -> None:
        """Heartbeats every 50 ms until cancelled, on a new stream whenever one breaks."""
        while True:
            call = stub.BrokerHeartbeat(wait_for_ready=True)
            try:
                while True:
                    await call.write(self.heartbeat())
                    answer = await call.read()
                    if not isinstance(answer, controller_pb2.BrokerHeartbeatResponse):
                        break
                    self.answered = answer
                    await self._tell()
                    await asyncio.sleep(0.05)
            except (grpc.RpcError, asyncio.InvalidStateError):
                await asyncio.sleep(0.02)
            finally:
                call.cancel()

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S), self._news:
            await self._news.wait_for(true)

    async def until_unfenced(self) -> None:
        await self.until(lambda: self.answered is not None and not self.answered.is_fenced)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def Identify(
        self, request: push_pb2.IdentifyRequest, context: Any
    ) -> push_pb2.IdentifyResponse:
        return push_pb2.IdentifyResponse(
            cluster_id=self.cluster_id,
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
        )

    async def LeaderAndIsr(
        self, requests: AsyncIterator[push_pb2.LeaderAndIsrRequest], context: Any
    ) -> None:
        # A handler that is cancelled in its very first write would leave the call without a status.
        await context.send_initial_metadata(())
        stream: list[push_pb2.LeaderAndIsrRequest] = []
        self.streams.append(stream)
        async for request in requests:
            stream.append(request)
            await self._tell()
            await self._registered.wait()  # a push may overtake the answer that names the epoch
            await self.may_apply.wait()
            answer = push_pb2.LeaderAndIsrResponse(metadata_offset=request.metadata_offset)
            envelope = envelope_from_wire(request)
            refused = self.metadata.check(envelope, broker_epoch=BrokerEpoch(self.epoch))
            if self.ask_for_full > 0:
                self.ask_for_full -= 1
                answer.want_full = True
            elif refused is not None:
                answer.error_code, answer.error_message = refused.code, str(refused)
            else:
                applied(self.metadata, envelope)
            answer.store_id = self.metadata.store_id
            answer.controller_epoch = self.metadata.controller_epoch
            answer.applied_metadata_offset = self.metadata.applied_offset
            for topic_id, partition, code in self.failing:
                answer.topics.add(topic_id=topic_id).partitions.add(
                    partition_index=partition, error_code=code
                )
            await context.write(answer)
            await self._tell()
