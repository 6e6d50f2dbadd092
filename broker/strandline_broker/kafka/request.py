"""One request of a Kafka client, and the calls that answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_broker.kafka.headers import Header
    from strandline_broker.kafka.wire import Buffers
    from strandline_runtime.runtime import ByteStream

DECODED_AT_ONCE_BYTES: Final = 32 << 10
"""Limit of a request that the event loop decodes; a thread decodes longer ones."""
KNOWS_NOTHING: Final = (
    "this broker has not heard from the controller since its start; the client may ask another one"
)


class CloseConnection(Exception):
    """The request has no answer, and its connection ends. The text is logged."""


def host_of(stream: ByteStream) -> str:
    """Returns the client's host, without the port."""
    return stream.peer.rpartition(":")[0].strip("[]")


class Request:
    """A request under way.

    `hurry` is called when the client has sent a further request. A Fetch that waits then answers
    with the available records. `on_end` is called if the connection ends before the answer.
    """

    __slots__ = (
        "body",
        "client_host",
        "connection",
        "errors",
        "header",
        "is_hurried",
        "on_end",
        "on_hurry",
        "waits_since_s",
    )

    def __init__(
        self, header: Header, body: memoryview, client_host: str, connection: object
    ) -> None:
        self.header = header
        self.body = body
        self.client_host = client_host
        """The client's host, without the port."""
        self.connection = connection
        """Stands for the connection: the same object for all its requests, and for no other."""
        self.is_hurried = False
        self.on_hurry: Callable[[], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.errors: list[int] = []
        """The codes of the errors that the answer names."""
        self.waits_since_s: float | None = None
        """The loop's time at which a Produce began to wait for its acks, a Fetch for records."""

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    def hurry(self) -> None:
        self.is_hurried = True
        if self.on_hurry is not None:
            self.on_hurry()


class Call(Protocol):
    """Answers a request with the body of the answer."""

    def __call__(self, request: Request) -> Awaitable[Buffers]: ...


class Appending(Protocol):
    """Appends the batches of a Produce request, in the order of the calls."""

    async def __call__(self, request: Request, answer: Callable[[Buffers | None], None]) -> None:
        """Returns once the batches are appended; calls `answer` once, then or later.

        `answer` gets None for acks=0. Raises CloseConnection, and calls `answer` not at all then.
        """
        ...


def by_hand(method: Any) -> Any:
    """Marks a handler that decodes the request's body and encodes its answer itself."""
    method.is_by_hand = True
    return method
