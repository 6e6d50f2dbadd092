"""The calls of a Kafka listener by their API keys. The first connection imports this module: most
brokers never serve a Kafka client.
"""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.kafka import codec
from strandline_broker.kafka.cluster.parts import cluster_parts
from strandline_broker.kafka.groups.parts import group_parts
from strandline_broker.kafka.records.parts import record_parts
from strandline_broker.kafka.records.produce import ProduceCalls
from strandline_broker.kafka.request import (
    DECODED_AT_ONCE_BYTES,
    KNOWS_NOTHING,
    CloseConnection,
)
from strandline_broker.kafka.transactions.parts import transaction_parts
from strandline_broker.kafka.versions import API_VERSIONS, BY_NAME, METADATA
from strandline_proto.errors import NONE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from strandline_broker.kafka.request import Call, Request
    from strandline_broker.kafka.services import Services
    from strandline_broker.kafka.wire import Buffers

ANSWERED_EARLY: Final = frozenset((API_VERSIONS, METADATA))
"""Requests with an answer of their own from a broker that knows nothing of its cluster yet."""


class Calls:
    """The handlers of a listener's requests, and the codec between them and the wire."""

    def __init__(self, services: Services, listener: str) -> None:
        codec.load()
        self._thread = services.runtime.serial_executor("kafka-decoding")
        self._by_key: dict[int, Call] = {}
        self._requests = services.metrics.requests
        self._views = services.views
        self._produce = ProduceCalls(services, listener)
        for part in _parts(services, listener):
            for name, method in _methods_of(part):
                api = BY_NAME[name]
                is_by_hand = getattr(method, "is_by_hand", False)
                self._by_key[api.key] = method if is_by_hand else partial(self._decoded, method)

    async def append(self, request: Request, answer: Callable[[Buffers | None], None]) -> None:
        """Appends the batches of a Produce request, as `Appending` describes."""
        self._requests.labels(method="Kafka Produce").inc()
        await self._produce.append(request, answer)

    async def answer(self, request: Request) -> Buffers:
        """Returns the body of the answer. Raises MalformedRequest or CloseConnection."""
        api = request.header.api
        self._requests.labels(method=f"Kafka {api.name}").inc()
        if not (self._views.has_first or api.key in ANSWERED_EARLY or await self._views.first()):
            raise CloseConnection(KNOWS_NOTHING)
        return await self._by_key[api.key](request)

    async def _decoded(
        self, method: Callable[[Request, Any], Awaitable[Any]], request: Request
    ) -> Buffers:
        """Decodes the request by kafka-python's schema. The handler returns an answer for
        kafka-python's encoder, or buffers that it has written itself.
        """
        api, version, body = request.header.api, request.version, request.body
        loop = asyncio.get_running_loop()
        if len(body) < DECODED_AT_ONCE_BYTES:
            message = codec.decode(api, version, body)
        else:
            message = await loop.run_in_executor(self._thread, codec.decode, api, version, body)
        answer = await method(request, message)
        code = getattr(answer, "error_code", NONE)
        if code:
            request.errors.append(code)
        if isinstance(answer, list):
            return answer
        if codec.is_large(answer):
            return [await loop.run_in_executor(self._thread, codec.encode, answer, version)]
        return [codec.encode(answer, version)]


def _parts(services: Services, listener: str) -> Iterable[Any]:
    yield from cluster_parts(services, listener)
    yield from record_parts(services, listener)
    yield from group_parts(services, listener)
    yield from transaction_parts(services)


def _methods_of(part: Any) -> Iterable[tuple[str, Any]]:
    """The calls that a part serves, which have the names of Kafka's requests."""
    for name, method in inspect.getmembers(part, inspect.ismethod):
        if name[0].isupper():
            yield name, method
