"""Deserializes the records that a poll is about to deliver, batch by batch.

A batch is held back until its records are deserialized. A record that does not deserialize is
raised, skipped or sent to a dead-letter topic; the records before it are delivered first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline._consumer.deserializer_thread import DeserializerThread
from strandline._net.arguments import milliseconds
from strandline.errors import ConfigurationError, DeserializationError, describe
from strandline.serialization import QUICK, DeadLetters, Format, format_or_function
from strandline.types import ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from strandline._consumer.delivery import Delivery, Held
    from strandline._core.position import Position
    from strandline_runtime.runtime import Runtime

    Converted = ConsumerRecord[Any, Any] | DeserializationError
    SendDeadLetter = Callable[[ConsumerRecord, DeserializationError], Awaitable[object]]

SLICE: Final = 1000
"""Most records that the event loop deserializes in one step."""
SKIPS_LOGGED_EVERY_S: Final = 10.0


class DeserializerOptions(NamedTuple):
    """The validated options of a consumer about deserialization."""

    key: Format[Any] | Callable[[bytes], Any] | None
    value: Format[Any] | Callable[[bytes], Any] | None
    on_error: str | DeadLetters
    timeout_s: float


def deserializer_options(
    key: object, value: object, on_error: object, timeout_ms: float
) -> DeserializerOptions:
    """Returns the validated options. Raises ConfigurationError."""
    if isinstance(on_error, DeadLetters):
        if not isinstance(on_error.topic, str) or not on_error.topic:
            raise ConfigurationError(f"on_deserialization_error={on_error!r} names no topic")
    elif on_error not in ("raise", "skip"):
        raise ConfigurationError(
            f"on_deserialization_error={on_error!r} is not known; use 'raise', 'skip' or "
            "DeadLetters(topic)"
        )
    milliseconds("deserialization_timeout_ms", timeout_ms)
    return DeserializerOptions(
        format_or_function("key_deserializer", key),
        format_or_function("value_deserializer", value),
        on_error,
        timeout_ms / 1000,
    )


class Deserializing:
    """The deserializers of one consumer, and its policy for records that do not deserialize."""

    def __init__(
        self,
        options: DeserializerOptions,
        delivery: Delivery,
        send_dead_letter: SendDeadLetter | None,
    ) -> None:
        self.skipped = self.dead_letters = 0
        """Records so far."""
        self._convert = _conversion(options)
        given = [each for each in (options.key, options.value) if each is not None]
        self._is_quick = all(type(each) in QUICK for each in given)
        self._on_error = options.on_error
        self._timeout_s = options.timeout_s
        self._delivery = delivery
        self._send_dead_letter = send_dead_letter
        self._thread = DeserializerThread()
        self._lock = asyncio.Lock()
        self._unlogged = 0
        self._logged_s = float("-inf")

    def close(self) -> None:
        """Ends the thread of the deserializers."""
        self._thread.close()

    async def prepare(self, positions: Iterable[Position], runtime: Runtime) -> list[Position]:
        """Deserializes the next batch of each position that has no record to deliver.

        Returns the positions that have moved, over records that were passed over. Raises the error
        of a dead letter that was not acknowledged; the next call tries again.
        """
        moved: list[Position] = []
        async with self._lock:  # of concurrent polls, one deserializes
            for position in positions:
                before = position.offset
                while (held := self._delivery.held(position)) is not None:
                    await self._resolve(position, held, runtime)
                if position.offset != before:
                    moved.append(position)
        return moved

    async def _resolve(self, position: Position, held: Held, runtime: Runtime) -> None:
        if held.error is not None:
            self._delivery.fail(position, held, held.error)
            return
        records = held.records
        results = await self._converted(records)
        done: list[ConsumerRecord[Any, Any]] = []
        for record, result in zip(records, results, strict=False):
            if isinstance(result, ConsumerRecord):
                done.append(result)
                continue
            if self._on_error == "raise" or self._thread.is_used_up:
                self._delivery.resolve(position, held, done, upto=record.offset, error=result)
                return
            try:
                await self._pass_over(record, result, runtime)
            except BaseException:
                self._delivery.resolve(position, held, done, upto=record.offset)
                raise
        self._delivery.resolve(position, held, done)

    async def _pass_over(
        self, record: ConsumerRecord, error: DeserializationError, runtime: Runtime
    ) -> None:
        if self._send_dead_letter is not None:
            await self._send_dead_letter(record, error)
            self.dead_letters += 1
            return
        self.skipped += 1
        self._unlogged += 1
        now_s = runtime.clock.monotonic()
        if now_s - self._logged_s >= SKIPS_LOGGED_EVERY_S:
            runtime.log.warning(
                "records that do not deserialize were skipped",
                records=self._unlogged,
                error=describe(error),
            )
            self._logged_s, self._unlogged = now_s, 0

    async def _converted(self, records: Sequence[ConsumerRecord]) -> list[Converted]:
        """Returns a result for each record; fewer if the policy is to raise the last one."""
        results: list[Converted] = []
        if self._is_quick:
            for record in records:
                if len(results) % SLICE == SLICE - 1:
                    await asyncio.sleep(0)
                results.append(self._convert(record))
                if self._is_last(results[-1]):
                    break
            return results
        while len(results) < len(records):
            left = records[len(results) :]
            results += await self._thread.run(left, self._convert, self._is_last, self._timeout_s)
            if len(results) == len(records) or (results and self._is_last(results[-1])):
                break
            results.append(_blocked(records[len(results)], self._timeout_s))
            if self._on_error == "raise" or self._thread.is_used_up:
                break
        return results

    def _is_last(self, result: Converted) -> bool:
        return self._on_error == "raise" and isinstance(result, DeserializationError)


def _conversion(options: DeserializerOptions) -> Callable[[ConsumerRecord], Converted]:
    """Returns a function that converts a record, and returns an error instead of raising it."""
    key, value = (
        _Field(name, each) if each is not None else None
        for name, each in (("key", options.key), ("value", options.value))
    )

    def convert(record: ConsumerRecord) -> Converted:
        new_key: Any = record.key
        new_value: Any = record.value
        try:
            if key is not None and new_key is not None:
                new_key = key.converted(record, new_key)
            if value is not None and new_value is not None:
                new_value = value.converted(record, new_value)
        except DeserializationError as error:
            return error
        topic, number, offset, timestamp, _, _, headers, epoch, kind = record
        return ConsumerRecord(
            topic, number, offset, timestamp, new_key, new_value, headers, epoch, kind
        )

    return convert


class _Field:
    """The deserializer of a record's key or value."""

    def __init__(self, name: str, given: Format[Any] | Callable[[bytes], Any]) -> None:
        self._name = name
        self._may_be_none = isinstance(given, Format)
        self._convert = given.deserialize if isinstance(given, Format) else given
        # A function runs on a thread, which must not end. A ready-made format may run on the main
        # thread, where Ctrl-C is no fault of the bytes.
        self._caught = Exception if type(given) in QUICK else BaseException

    def converted(self, record: ConsumerRecord, data: bytes) -> Any:
        try:
            found = self._convert(data)
        except self._caught as error:
            raise refused(record, self._name, data, describe(error)) from error
        if found is None and not self._may_be_none:
            why = "the deserializer returned None, which stands for a missing key or a tombstone"
            raise refused(record, self._name, data, why)
        if isinstance(found, Awaitable):
            if isinstance(found, Coroutine):
                found.close()
            why = f"the deserializer returned a {type(found).__name__}: it must be a plain function"
            raise refused(record, self._name, data, why)
        return found


def refused(record: ConsumerRecord, field: str, data: bytes, why: str) -> DeserializationError:
    """Returns the error of a record that does not deserialize."""
    return DeserializationError(
        f"{record.topic}:{record.partition}: the {field} at offset {record.offset} does not "
        f"deserialize ({why}); seek to {record.offset + 1} to skip it, or set "
        "on_deserialization_error",
        TopicPartition(record.topic, record.partition),
        record.offset,
        field,
        data,
    )


def _blocked(record: ConsumerRecord, timeout_s: float) -> DeserializationError:
    field = "key" if record.value is None else "value"
    why = (
        f"the deserializer did not return within {timeout_s * 1000:.0f} ms, "
        "deserialization_timeout_ms"
    )
    return refused(record, field, (record.value if field == "value" else record.key) or b"", why)
