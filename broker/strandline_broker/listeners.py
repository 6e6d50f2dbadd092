"""The listeners of a broker: gRPC servers, and ports for Kafka clients."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.config.addresses import HostPort, WireProtocol
from strandline_broker.config.listeners import is_grpc_by_need, passthrough_listener
from strandline_broker.core.addresses import Endpoint
from strandline_broker.hosts.member.lifecycle import CannotStart
from strandline_broker.rpc.broker_service import (
    BROKER_SERVICE,
    REPLICA_SERVICE,
    Service,
    add_broker_service,
    add_replica_service,
)
from strandline_broker.rpc.lazy_service import add_standard_services
from strandline_broker.rpc.watch.service import WATCH_SERVICE, add_watch_service
from strandline_broker.storage.segment.open_segments import connections_max
from strandline_proto.range_frames import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc.aio

    from strandline_broker.config.keys import BrokerConfig, Listener
    from strandline_broker.hosts.watch.draft import Source
    from strandline_broker.kafka.listener import KafkaListener
    from strandline_broker.kafka.services import Services
    from strandline_broker.telemetry import ServerMetrics
    from strandline_runtime.runtime import ByteStream, Runtime

STOP_GRACE_S: Final = 0.1
"""Time for calls that are about to answer. Streams never end by themselves."""
_THIS_HOST: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Listeners:
    """One server for each listener: clients get the addresses of the listener that they use."""

    def __init__(self, runtime: Runtime, config: BrokerConfig, metrics: ServerMetrics) -> None:
        self._runtime = runtime
        self._config = config
        self._metrics = metrics
        self.servers: dict[str, grpc.aio.Server] = {}
        self.kafka: list[KafkaListener] = []
        self.endpoints: list[Endpoint] = []
        """The advertised addresses, in the order of the configuration."""

    async def bind(
        self,
        broker_service: Callable[[Listener], Service],
        replica_service: Callable[[], Service],
        kafka_services: Callable[[], Services],
        watch_source: Callable[[], Source],
        *,
        is_serving: Callable[[], bool],
    ) -> None:
        """Binds every listener, and accepts connections. Raises CannotStart."""
        if is_grpc_by_need(self._config):
            self._runtime.log.info(
                "the only listener speaks gRPC",
                listener=str(self._config.listeners[0]),
                why="brokers and the controller use it; for Kafka's clients add a second listener,"
                " for instance GRPC://HOST:19092",
            )
        ports: dict[str, int] = {}
        bound = connections_max(self._runtime.descriptors) // len(self._config.listeners)
        for listener in self._speaking(WireProtocol.GRPC):
            server = self.servers[listener.name] = self._runtime.network.server(bound)
            services = [BROKER_SERVICE, WATCH_SERVICE]
            add_broker_service(server, broker_service(listener))
            if listener.name == self._config.inter_broker_listener_name:
                services.append(REPLICA_SERVICE)
                add_replica_service(server, replica_service())
            guarded = partial(Service, self._runtime, self._metrics)
            add_watch_service(server, guarded, watch_source)
            add_standard_services(server, tuple(services), is_serving, guarded)
            ports[listener.name] = _bind(server, listener)
        await self._bind_kafka(kafka_services, ports, bound)
        for listener in self._config.listeners:
            told, port = self._config.advertised(listener.name), ports[listener.name]
            self.endpoints.append(Endpoint(listener.name, told.host, told.port or port))
        for server in self.servers.values():
            await server.start()

    def _speaking(self, protocol: WireProtocol) -> list[Listener]:
        return [each for each in self._config.listeners if each.protocol is protocol]

    async def _bind_kafka(
        self, services: Callable[[], Services], ports: dict[str, int], bound: int
    ) -> None:
        """Binds the listeners for Kafka clients, and adds their ports to those of gRPC."""
        listeners = self._speaking(WireProtocol.KAFKA)
        if not listeners:
            return
        from strandline_broker.kafka.connection_metrics import ConnectionMetrics
        from strandline_broker.kafka.limits import Limits
        from strandline_broker.kafka.listener import KafkaListener

        limits = Limits.of(self._config, descriptors=bound * len(listeners))
        limits.report(self._runtime.metrics)
        self._runtime.metrics.register(ConnectionMetrics(self._runtime.clock, self.kafka))
        for listener in listeners:
            grpc = passthrough_listener(self._config, listener.name)
            target = HostPort(_THIS_HOST.get(grpc.host, grpc.host), ports[grpc.name])
            made = services()
            others = {MAGIC: partial(_serve_ranges, made, self._config.connections_max_idle_ms)}
            kafka = KafkaListener(made, listener.name, target, limits, others)
            try:
                ports[listener.name] = await kafka.bind(listener.host, listener.port)
            except OSError as error:
                raise CannotStart(
                    f"cannot listen on {listener}: the port is in use, or the address is not this"
                    f" machine's: {error}"
                ) from error
            self.kafka.append(kafka)

    async def run(self) -> None:
        """Serves Kafka's clients until cancelled; gRPC's servers run by themselves."""
        async with asyncio.TaskGroup() as group:
            for listener in self.kafka:
                group.create_task(listener.run())

    async def stop(self) -> None:
        for listener in self.kafka:
            listener.close()
        async with asyncio.TaskGroup() as group:
            for server in self.servers.values():
                group.create_task(server.stop(STOP_GRACE_S))


def _bind(server: grpc.aio.Server, listener: Listener) -> int:
    try:
        port = server.add_insecure_port(listener.target)
    except RuntimeError:
        port = 0
    if port == 0:
        raise CannotStart(
            f"cannot listen on {listener}: the port is in use, or the address is not this machine's"
        )
    return port


async def _serve_ranges(services: Services, idle_ms: int, stream: ByteStream) -> None:
    """Serves ranges in plain frames on a connection to a Kafka listener."""
    from strandline_broker.hosts.serving.fetch_range import FetchRangeService
    from strandline_broker.kafka.request import CloseConnection
    from strandline_broker.rpc.malformed import MalformedRequest
    from strandline_broker.rpc.records.range_frames import serve_ranges

    try:
        await serve_ranges(
            FetchRangeService(services.replicas, services.metadata),
            stream,
            idle_s=None if idle_ms < 0 else idle_ms / 1000,
            count=services.metrics.requests.labels(method="FetchRange").inc,
        )
    except MalformedRequest as error:
        raise CloseConnection(str(error)) from error
