"""The two services of a broker, each built from one handler class for each group of calls.

This is the RPC boundary:

- An unexpected failure is logged and counted here. The peer learns only that it happened.
- A broken invariant is a defect of the server. It ends the process before more harm is done.
- A request that does not parse, and a peer that disconnects, are no failures of the server.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from strandline_broker.rpc.lazy_service import Collector
from strandline_broker.rpc.malformed import MalformedRequest, tolerant
from strandline_broker.rpc.records.fetch_codec import decode_request
from strandline_broker.rpc.request_bounds import RequestTooLarge, bound_handlers, refusal
from strandline_proto import hot_calls
from strandline_proto.errors import NONE
from strandline_proto.v1 import services_pb2_grpc
from strandline_runtime.client_ids import client_id_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from strandline_broker.telemetry import ServerMetrics
    from strandline_runtime.runtime import Runtime

BROKER_SERVICE: Final = hot_calls.SERVICE
REPLICA_SERVICE: Final = "strandline_proto.v1.ReplicaService"
COMPLAINT_S: Final = 10.0
"""Time between two log lines about requests that do not parse: a peer may send any number of them.
"""


class Service:
    """The public methods of several handler classes as one servicer."""

    def __init__(self, runtime: Runtime, metrics: ServerMetrics, *parts: Any) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self._quiet_until_s = 0.0
        self._not_said = 0
        for part in parts:
            for name in _methods_of(type(part)):  # type: ignore[arg-type] # mypy issue 11470
                if hasattr(self, name):
                    raise TypeError(f"two parts serve {name}")
                setattr(self, name, self._guarded(name, getattr(part, name)))

    def _guarded(self, name: str, method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        requests = self._metrics.requests.labels(method=name)
        clock = self._runtime.clock

        async def call(request: Any, context: Any) -> Any:
            requests.inc()
            began_s = clock.monotonic()
            try:
                if isinstance(request, MalformedRequest):
                    return self._refuse(name, request, context)
                return self._counted(name, await method(request, context))
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: it ends here
                await self._failed(name, error, context)
            finally:
                self._note_time(name, request, began_s)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            requests.inc()
            try:
                if isinstance(request, MalformedRequest):
                    raise request
                async for response in method(request, context):
                    yield response
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: it ends here
                await self._failed(name, error, context)

        return stream if inspect.isasyncgenfunction(method) else call

    def _note_time(self, name: str, request: Any, began_s: float) -> None:
        """Notes the time of a call, unless it is a stream, whose life is no request's time."""
        if not hasattr(request, "__aiter__"):
            self._metrics.times.of(name).observe(self._runtime.clock.monotonic() - began_s)

    def _counted(self, name: str, answer: Any) -> Any:
        """The answer; its error is counted."""
        code = getattr(answer, "error_code", NONE)
        if code != NONE:
            self._metrics.times.count_error(name, code)
        return answer

    def _refuse(self, name: str, malformed: MalformedRequest, context: Any) -> Any:
        """The answer of the call that says so; else the exception is raised, for its status."""
        answer = refusal(malformed) if isinstance(malformed, RequestTooLarge) else None
        if answer is None:
            raise malformed
        self._complain(name, malformed, context)
        return answer

    async def _failed(self, name: str, error: Exception, context: Any) -> None:
        causes = list(_causes(error))
        if any(isinstance(cause, AssertionError) for cause in causes):
            await self._unforeseen(name, error, context)
        if context.done() or context.cancelled() or all(map(_is_broken_off, causes)):
            # The peer is gone; every failed write to it means only that. To gRPC only a
            # cancellation is no failure of the handler's.
            self._runtime.log.debug(
                "call ended by the peer", method=name, **_caller(context), why=str(error)
            )
            raise asyncio.CancelledError from error
        for cause in causes:
            if isinstance(cause, MalformedRequest):
                self._complain(name, cause, context)
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{name}: {cause}")
        await self._unforeseen(name, error, context)

    def _complain(self, name: str, malformed: MalformedRequest, context: Any) -> None:
        now_s = self._runtime.clock.monotonic()
        if now_s < self._quiet_until_s:
            self._not_said += 1
            return
        not_said, self._not_said = self._not_said, 0
        self._quiet_until_s = now_s + COMPLAINT_S
        self._runtime.log.info(
            "a request was refused",
            method=name,
            **_caller(context),
            why=str(malformed),
            others_since_the_last_line=not_said,
        )

    async def _unforeseen(self, name: str, error: Exception, context: Any) -> None:
        self._metrics.failures.labels(method=name).inc()
        self._runtime.log.error(
            "unforeseen failure", method=name, **_caller(context), exc_info=error
        )
        if any(isinstance(cause, AssertionError) for cause in _causes(error)):
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


def _caller(context: Any) -> dict[str, str]:
    """The caller, for a log line: its address, and its name if it has one."""
    client_id = client_id_of(context.invocation_metadata())
    return {"peer": context.peer()} | ({"client_id": client_id} if client_id else {})


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group, or the one that is none."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error


def _is_broken_off(error: BaseException) -> bool:
    """True if gRPC could not send or read because the connection or the call has ended. It raises
    that error shortly before it reports that the peer disconnected.
    """
    return isinstance(error, grpc.aio.InternalError)


def add_broker_service(server: grpc.aio.Server, service: Service) -> None:
    collector = _registered(
        service,
        services_pb2_grpc.BrokerServiceServicer,
        services_pb2_grpc.add_BrokerServiceServicer_to_server,
    )
    collector.handlers.update(hot_calls.handlers(service, decode_request))
    add_handlers(server, BROKER_SERVICE, collector)


def add_replica_service(server: grpc.aio.Server, service: Service) -> None:
    collector = _registered(
        service,
        services_pb2_grpc.ReplicaServiceServicer,
        services_pb2_grpc.add_ReplicaServiceServicer_to_server,
    )
    add_handlers(server, REPLICA_SERVICE, collector)


def _registered(
    service: Service, contract: type, register: Callable[[Any, Any], None]
) -> Collector:
    """The handlers of the calls that a part serves. gRPC answers UNIMPLEMENTED to the others."""
    unserved = [name for name in _methods_of(contract) if not hasattr(service, name)]
    for name in unserved:
        setattr(service, name, None)
    collector = Collector()
    register(service, collector)
    for name in unserved:
        del collector.handlers[name]
    return collector


def add_handlers(server: grpc.aio.Server, name: str, collector: Collector) -> None:
    """Serve the handlers that generated code registered with `collector`, within the bounds of
    requests.
    """
    handlers = tolerant(bound_handlers(name, collector.handlers))
    generic = grpc.method_handlers_generic_handler(name, handlers)
    server.add_generic_rpc_handlers((generic,))
    server.add_registered_method_handlers(name, handlers)
