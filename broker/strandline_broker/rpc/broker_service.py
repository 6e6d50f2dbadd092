"""The two services of a broker, put together from one handler class for each group of calls.

This is the RPC boundary: a failure that nobody foresaw is logged and counted here, and the peer is
told no more than that. A broken invariant is our own mistake, and ends the process before it can do
harm.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from strandline_broker.rpc.lazy_service import Collector
from strandline_proto import hot_calls
from strandline_proto.v1 import services_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from strandline_broker.telemetry import ServerMetrics
    from strandline_runtime.runtime import Runtime

BROKER_SERVICE: Final = hot_calls.SERVICE
REPLICA_SERVICE: Final = "strandline_proto.v1.ReplicaService"


class Service:
    """The public methods of several handler classes as one servicer."""

    def __init__(self, runtime: Runtime, metrics: ServerMetrics, *parts: Any) -> None:
        self._runtime = runtime
        self._metrics = metrics
        for part in parts:
            for name in _methods_of(type(part)):  # type: ignore[arg-type] # mypy issue 11470
                if hasattr(self, name):
                    raise TypeError(f"two parts serve {name}")
                setattr(self, name, self._guarded(name, getattr(part, name)))

    def _guarded(self, name: str, method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        requests = self._metrics.requests.labels(method=name)

        async def call(request: Any, context: Any) -> Any:
            requests.inc()
            try:
                return await method(request, context)
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: it ends here
                await self._unforeseen(name, error, context)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            requests.inc()
            try:
                async for response in method(request, context):
                    yield response
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: it ends here
                await self._unforeseen(name, error, context)

        return stream if inspect.isasyncgenfunction(method) else call

    async def _unforeseen(self, name: str, error: Exception, context: Any) -> None:
        if context.done():
            # The peer has gone; writing to it fails in ways that mean nothing else.
            self._runtime.log.debug("call ended by the peer", method=name, why=str(error))
            raise error
        self._metrics.failures.labels(method=name).inc()
        self._runtime.log.error("unforeseen failure", method=name, exc_info=error)
        if _has_assertion(error):
            self._runtime.exit(f"a broken invariant in {name}: {error}")
        await context.abort(
            grpc.StatusCode.INTERNAL,
            f"{name} failed in a way the broker did not foresee ({type(error).__name__}); "
            "its log says how",
        )


@functools.cache
def _methods_of(part: type) -> tuple[str, ...]:
    """The names of the calls that a handler class serves."""
    found = inspect.getmembers(part, inspect.isfunction)
    return tuple(name for name, _ in found if name[0].isupper())


def _has_assertion(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_has_assertion(e) for e in error.exceptions)
    return isinstance(error, AssertionError)


def add_broker_service(server: grpc.aio.Server, service: Service) -> None:
    collector: Any = Collector()
    services_pb2_grpc.add_BrokerServiceServicer_to_server(
        service,  # type: ignore[arg-type] # its methods are found by name
        collector,
    )
    handlers = {**collector.handlers, **hot_calls.handlers(service)}
    generic = grpc.method_handlers_generic_handler(BROKER_SERVICE, handlers)
    server.add_generic_rpc_handlers((generic,))
    server.add_registered_method_handlers(BROKER_SERVICE, handlers)


def add_replica_service(server: grpc.aio.Server, service: Service) -> None:
    services_pb2_grpc.add_ReplicaServiceServicer_to_server(
        service,  # type: ignore[arg-type] # its methods are found by name
        server,
    )
