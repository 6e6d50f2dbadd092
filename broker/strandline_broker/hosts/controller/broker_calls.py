"""The controller's calls to brokers as plain data, and the protocol that carries them.

`rpc/controller/broker_link.py` carries them over the wire. A call that fails raises its transport's
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_broker.core.controller.log.state import Broker
    from strandline_broker.core.controller.push import MetadataDelta
    from strandline_broker.core.push_answer import PushAnswer
    from strandline_proto.ids import (
        BrokerId,
    )


class Identified(NamedTuple):
    """The process that answered."""

    cluster_id: str
    broker_id: BrokerId
    incarnation_id: str


class PushCall(Protocol):
    """One push stream."""

    async def prepare(self, envelope: MetadataDelta) -> Callable[[], Awaitable[None]]:
        """Returns a function that sends the envelope."""
        ...

    async def read(self) -> PushAnswer | None:
        """The next answer; None once the broker has ended the stream."""
        ...

    def cancel(self) -> None: ...


class BrokerChannel(Protocol):
    """A channel to the inter-broker listener of one broker."""

    def push(self) -> PushCall: ...

    async def identify(self, *, timeout_s: float) -> Identified: ...

    async def close(self) -> None: ...


class Dial(Protocol):
    def __call__(self, broker: Broker) -> BrokerChannel: ...
