"""Sends records that do not deserialize to a dead-letter topic."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from strandline._net.arguments import REQUEST_BYTES_MAX
from strandline.errors import DeliveryError, StrandlineError, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline._consumer.options import ConsumerOptions
    from strandline.errors import DeserializationError
    from strandline.producer import Producer
    from strandline.types import ConsumerRecord, Headers
    from strandline_runtime.runtime import Runtime

REASON_MAX: Final = 2000
"""Most characters of the reason in a header."""
PREFIX: Final = "strandline.dead-letter."


class DeadLetterSender:
    """The producer of one consumer's dead letters, started at the first of them."""

    def __init__(self, topic: str, make: Callable[[int], Producer]) -> None:
        self._topic = topic
        self._make = make
        self._producer: Producer | None = None
        self._lock = asyncio.Lock()

    async def send(self, record: ConsumerRecord, error: DeserializationError) -> None:
        """Sends one record as it was read, and waits for the acknowledgement.

        Raises DeliveryError.
        """
        try:
            async with self._lock:
                if self._producer is None:
                    producer = self._make(REQUEST_BYTES_MAX)
                    await producer.start()
                    self._producer = producer
            await self._producer.send_and_wait(
                self._topic,
                record.value,
                record.key,
                timestamp_ms=max(record.timestamp, 0),
                headers=(*record.headers, *reason_headers(record, error)),
            )
        except StrandlineError as failure:
            raise DeliveryError(
                f"{record.topic}:{record.partition}: the record at offset {record.offset} does not "
                f"deserialize, and its dead letter was not acknowledged by topic {self._topic!r}: "
                f"{describe(failure)}; the next poll sends it again",
                cause=failure,
                may_have_been_written=failure.may_have_been_written,
            ) from failure

    async def close(self, timeout_ms: float) -> None:
        """Closes the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(DeliveryError):  # of a cancelled poll: its record is read again
                await producer.stop(timeout_ms)


def reason_headers(record: ConsumerRecord, error: DeserializationError) -> Headers:
    """The headers of a dead letter that say where it was, and why it was not delivered."""
    reason = describe(error.__cause__) if error.__cause__ is not None else str(error)
    texts = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "field": error.field,
        "reason": reason[:REASON_MAX],
    }
    return tuple((PREFIX + name, text.encode(errors="replace")) for name, text in texts.items())


def producer_of(
    options: ConsumerOptions,
    bootstrap: tuple[str, ...],
    runtime: Runtime | None,
    max_request_size: int,
) -> Producer:
    """A producer of dead letters, with the options of its consumer."""
    from strandline.producer import Producer  # not for every consumer

    return Producer(
        bootstrap,
        delivery_timeout_ms=options.request_timeout_ms,
        request_timeout_ms=options.request_timeout_ms,
        connect_timeout_ms=options.connect_timeout_ms,
        max_request_size=max_request_size,
        client_id=options.client_id,
        runtime=runtime,
    )
