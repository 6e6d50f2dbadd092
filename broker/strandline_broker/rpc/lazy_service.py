"""gRPC's standard services (health, reflection), imported by the first call to them.

They cost memory and start-up time, and an idle broker has a budget for both. Most processes never
get such a call.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from strandline_broker.rpc.malformed import tolerant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

WATCH_S: Final = 0.5
HEALTH: Final = "grpc.health.v1.Health"
REFLECTION: Final = "grpc.reflection.v1alpha.ServerReflection"


class Collector:
    """Collects the handlers that generated code would register with a server."""

    def __init__(self) -> None:
        self.handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Ignores the handlers: the same methods come through `add_registered_method_handlers`, by
        name.
        """

    def add_registered_method_handlers(
        self, service: str, handlers: dict[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        self.handlers.update(handlers)


class LazyService(grpc.GenericRpcHandler):
    """Gets the service's handlers from `register` when the first call arrives."""

    def __init__(self, service: str, register: Callable[[Any], None]) -> None:
        self._prefix = f"/{service}/"
        self._register = register
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] | None = None

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method = handler_call_details.method
        if not method.startswith(self._prefix):
            return None
        if self._handlers is None:
            collector = Collector()
            self._register(collector)
            self._handlers = tolerant(collector.handlers)
        return self._handlers.get(method.removeprefix(self._prefix))


def add_standard_services(
    server: grpc.aio.Server,
    services: tuple[str, ...],
    is_serving: Callable[[], bool],
    guarded: Callable[[Any], Any],
) -> None:
    """Add health and reflection. The process is healthy while `is_serving` returns True. `guarded`
    puts a servicer behind the RPC boundary.
    """

    def health(collector: Any) -> None:
        from grpc_health.v1 import health_pb2_grpc  # type: ignore[import-untyped] # it has none

        servicer = guarded(_Health(services, is_serving))
        health_pb2_grpc.add_HealthServicer_to_server(servicer, collector)

    def reflection(collector: Any) -> None:
        from grpc_reflection.v1alpha import (  # type: ignore[import-untyped] # it has none
            reflection_pb2_grpc,
        )
        from grpc_reflection.v1alpha._async import (  # type: ignore[import-untyped] # it has none
            ReflectionServicer,
        )

        servicer = guarded(ReflectionServicer((*services, HEALTH, REFLECTION)))
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, collector)

    server.add_generic_rpc_handlers(
        (LazyService(HEALTH, health), LazyService(REFLECTION, reflection))
    )


class _Health:
    """grpc.health.v1: one answer for the whole process, under its own name and each service's.

    Of another service it says that it is not known, as the protocol asks: a watcher goes on.
    """

    def __init__(self, services: tuple[str, ...], is_serving: Callable[[], bool]) -> None:
        self._names = ("", *services)
        self._is_serving = is_serving

    def _status(self, service: str) -> Any:  # grpc_health has no types
        from grpc_health.v1.health_pb2 import (  # type: ignore[import-untyped]
            HealthCheckResponse,
        )

        if service not in self._names:
            return HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        serving = self._is_serving()
        return HealthCheckResponse(
            status=HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING
        )

    async def Check(self, request: Any, context: Any) -> Any:
        if request.service not in self._names:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"no service {request.service[:100]!r} here"
            )
        return self._status(request.service)

    async def List(self, request: Any, context: Any) -> Any:
        from grpc_health.v1.health_pb2 import HealthListResponse

        return HealthListResponse(statuses=dict.fromkeys(self._names, self._status("")))

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        told = None
        while True:
            status = self._status(request.service)
            if status != told:
                yield status
                told = status
            await asyncio.sleep(WATCH_S)
