"""Producers and consumers of a test, asynchronous and blocking.

`with` gives the blocking client, and `async with` gives the asynchronous one. The producers note
every acknowledged record in the ledger.
"""

import asyncio
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from strandline import Consumer, Producer, sync
from strandline.testing.ledger import Ledger
from strandline.types import RecordMetadata, SendManyResult

A = TypeVar("A", Producer, Consumer)
S = TypeVar("S", sync.Producer, sync.Consumer)


class _NotingProducer(Producer):
    """An asynchronous producer with a ledger."""

    ledger: Ledger
    has_serializer = False

    async def send(self, *args: Any, **options: Any) -> "asyncio.Future[RecordMetadata]":
        future = await super().send(*args, **options)
        ledger, (key, value) = self.ledger, _sent(self, args, options)

        def note(done: "asyncio.Future[RecordMetadata]") -> None:
            if not done.cancelled() and asyncio.Future.exception(done) is None:
                ledger.note(asyncio.Future.result(done), key, value)

        # The base class's method: the library reports a failure that the test does not look at.
        asyncio.Future.add_done_callback(future, note)
        return future

    async def send_many(self, *args: Any, **options: Any) -> SendManyResult:
        result = await super().send_many(*args, **options)
        self.ledger.note_many(result)
        return result


class _NotingSyncProducer(sync.Producer):
    """A blocking producer with a ledger."""

    ledger: Ledger
    has_serializer = False

    def send(self, *args: Any, **options: Any) -> "Future[RecordMetadata]":
        future = super().send(*args, **options)
        ledger, (key, value) = self.ledger, _sent(self, args, options)

        def note(done: "Future[RecordMetadata]") -> None:
            if Future.exception(done) is None:
                ledger.note(Future.result(done), key, value)

        Future.add_done_callback(future, note)
        return future

    def send_and_wait(self, *args: Any, **options: Any) -> RecordMetadata:
        metadata = super().send_and_wait(*args, **options)
        self.ledger.note(metadata, *_sent(self, args, options))
        return metadata

    def send_many(self, *args: Any, **options: Any) -> SendManyResult:
        result = super().send_many(*args, **options)
        self.ledger.note_many(result)
        return result


UNKNOWN: Final = object()
"""In place of a key and a value that a serializer has changed."""


def _given(place: int, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return args[place] if len(args) > place else options.get(name)


def _sent(
    client: "_NotingProducer | _NotingSyncProducer", args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, Any]:
    """The key and the value of a `send`."""
    if client.has_serializer:
        return UNKNOWN, UNKNOWN
    return _given(2, "key", args, options), _given(1, "value", args, options)


class ClientOf(Generic[A, S]):
    """One client that is not started yet: `with` for the blocking form, `async with` for the
    asynchronous one.
    """

    def __init__(self, asynchronous: type[A], blocking: type[S], *args: Any, **options: Any):
        self._classes: tuple[type[A], type[S]] = asynchronous, blocking
        self._ledger: Ledger | None = options.pop("ledger", None)
        self._given = args, options
        self._async: A | None = None
        self._blocking: S | None = None

    def _made(self, cls: Any) -> Any:
        args, options = self._given
        client = cls(*args, **options)
        if self._ledger is not None:
            client.ledger = self._ledger
            client.has_serializer = any(
                options.get(name) is not None for name in ("key_serializer", "value_serializer")
            )
        return client

    def __enter__(self) -> S:
        client: S = self._made(self._classes[1])
        client.start()
        self._blocking = client
        return client

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._blocking is not None
        self._blocking.__exit__(kind, error, trace)

    async def __aenter__(self) -> A:
        client: A = self._made(self._classes[0])
        await client.start()
        self._async = client
        return client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._async is not None
        await self._async.__aexit__(kind, error, trace)


class ProducerFactory:
    """Makes producers: `with factory() as producer`, or `async with`."""

    def __init__(self, bootstrap: str, ledger: Ledger) -> None:
        self._bootstrap = bootstrap
        self._ledger = ledger

    def __call__(self, **options: Any) -> "ClientOf[Producer, sync.Producer]":
        """A producer with these options of `strandline.Producer`."""
        options.setdefault("bootstrap_servers", self._bootstrap)
        return ClientOf[Producer, sync.Producer](
            _NotingProducer, _NotingSyncProducer, ledger=self._ledger, **options
        )


class ConsumerFactory:
    """Makes consumers: `with factory(topic) as consumer`, or `async with`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def __call__(self, *topics: str, **options: Any) -> "ClientOf[Consumer, sync.Consumer]":
        """A consumer of these topics with these options of `strandline.Consumer`. It begins with
        the first record unless `auto_offset_reset` is given.
        """
        options.setdefault("bootstrap_servers", self._bootstrap)
        options.setdefault("auto_offset_reset", "earliest")
        return ClientOf[Consumer, sync.Consumer](Consumer, sync.Consumer, *topics, **options)
