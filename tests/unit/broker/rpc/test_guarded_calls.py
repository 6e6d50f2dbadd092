"""The boundary of a service counts the time and the error of each call, and no stream's life."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from strandline_broker.rpc.broker_service import Service
from strandline_broker.telemetry import ServerMetrics
from support.hand_clock import HandClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Calls:
    """One call that takes two seconds, and a stream that lasts an hour."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock

    async def Call(self, request: int, context: Any) -> Any:
        self._clock.now_s += 2.0
        return SimpleNamespace(error_code=request)

    async def Stream(self, requests: AsyncIterator[int], context: Any) -> None:
        async for _ in requests:
            self._clock.now_s += 3600.0


async def one() -> AsyncIterator[int]:
    yield 1


async def test_calls_are_timed_and_their_errors_counted_and_streams_are_not() -> None:
    clock, registry = HandClock(), CollectorRegistry()
    metrics = ServerMetrics(registry, clock)
    service: Any = Service(SimpleNamespace(clock=clock), metrics, Calls(clock))  # type: ignore[arg-type]
    for code in (0, 27, 27):
        await service.Call(code, None)
    await service.Stream(one(), None)

    def shown(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert shown("strandline_request_seconds_count", request="Call") == 3
    assert shown("strandline_request_seconds_sum", request="Call") == 6.0
    assert shown("strandline_request_seconds_count", request="Stream") is None
    errors = "kafka_network_requestmetrics_errors_total"
    assert shown(errors, request="Call", error="REBALANCE_IN_PROGRESS") == 2
    assert shown(errors, request="Call", error="NONE") is None
    assert shown("strandline_requests_total", method="Stream") == 1
