"""Produce: batches are appended in order, and answered once their acks are reached.

Versions 0 to 2 are advertised, because older librdkafka otherwise stops to compress (KAFKA-18659).
Kafka 4 closes the connection of a client that uses them, and so does this listener.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.serving.produce import ProduceService
from strandline_broker.hosts.serving.produce_requests import ProduceDeadlines, RequestedAppends
from strandline_broker.kafka.records.produce_answer import ADDS_PARTITIONS, produce_answer
from strandline_broker.kafka.records.produce_request import ParsedProduce, parse_produce
from strandline_broker.kafka.request import CloseConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.services import Services
    from strandline_broker.kafka.wire import Buffers
    from strandline_proto.hot_messages import ProduceResponse

SERVED_FIRST: Final = 3
_NOTHING: Final = memoryview(b"")


class ProduceCalls:
    """The Produce requests of one listener."""

    def __init__(self, services: Services, listener: str) -> None:
        self._metadata = services.metadata
        self._listener = listener
        self._service = ProduceService(
            services.replicas, services.metadata, services.checks, services.verifier
        )
        self._deadlines: ProduceDeadlines | None = None

    async def append(self, request: Request, answer: Callable[[Buffers | None], None]) -> None:
        """Appends the batches in order (P-37), as `request.Appending` describes."""
        version = request.version
        if version < SERVED_FIRST:
            raise CloseConnection(
                f"Produce {version} is not served: its messages have formats before magic 2; use a"
                " client of Kafka 0.11 or later"
            )
        parsed = parse_produce(request.body, version, self._metadata.view.ids_by_name)
        batches = parsed.batches
        ahead = await self._service.checks.ahead(
            ((data.topic_id, data.partition), data.records) for data in batches
        )
        appends = self._begin(request, parsed, answer)
        request.body = _NOTHING  # the log has the batches soon; do not keep them twice
        goes_on = await appends.start(batches, ahead)
        request.waits_since_s = asyncio.get_running_loop().time()
        batches.clear()
        if parsed.acks == 0:
            refusals = parsed.refusals
            if refusals or not goes_on:
                raise CloseConnection(
                    "Produce with acks=0 has no answer, and was refused:"
                    f" {(refusals + appends.refusals)[0]}"
                )
            answer(None)

    def _begin(
        self, request: Request, parsed: ParsedProduce, answer: Callable[[Buffers | None], None]
    ) -> RequestedAppends:
        if self._deadlines is None:
            self._deadlines = ProduceDeadlines()
        deadlines = self._deadlines

        def on_done(response: ProduceResponse) -> None:
            request.on_end = None
            answer(produce_answer(request.version, parsed.topics, response, request.errors))

        appends = RequestedAppends(
            self._service,
            self._metadata,
            self._listener,
            deadlines,
            on_done,
            correlation_id=request.header.correlation_id,
            acks=parsed.acks,
            timeout_ms=parsed.timeout_ms,
            transactional_id=parsed.transactional_id,
            transaction_version=2 if request.version >= ADDS_PARTITIONS else 1,
            connection=request.connection,
        )

        def on_end() -> None:
            deadlines.drop(appends)
            appends.abandon()

        request.on_end = on_end
        return appends
