"""The inbox of one call: messages that have arrived and are to be read."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.network.network import SimNetwork


class Inbox:
    """One read at a time, as in gRPC's core.

    A read whose task is cancelled stays under way there: it takes the next message with it, and
    until then further reads find nothing.
    """

    def __init__(self, network: SimNetwork, on_empty: Callable[[], None] | None = None) -> None:
        self._network = network
        self._messages: deque[bytes] = deque()
        self._reader: asyncio.Future[bytes | None] | None = None
        self._is_closed = False
        self._on_empty = on_empty

    @property
    def is_empty(self) -> bool:
        return not self._messages

    def put(self, message: bytes) -> None:
        if self._is_closed:
            return
        reader, self._reader = self._reader, None
        if reader is None:
            self._messages.append(message)
        elif not reader.done():
            reader.set_result(message)

    def close(self, *, drop: bool) -> None:
        """Ends the inbox: no more messages come; those that have come may still be read unless
        `drop`.
        """
        self._is_closed = True
        if drop:
            self._messages.clear()
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def pop(self) -> bytes | None:
        return self._messages.popleft() if self._messages else None

    async def take(self) -> bytes | None:
        """The next message; None at the end, or while an older read is under way."""
        if self._reader is not None:
            return None
        if not self._messages and not self._is_closed:
            self._reader = asyncio.get_running_loop().create_future()
            return await self._reader
        message = self.pop()
        if message is not None and self._on_empty is not None and not self._messages:
            self._on_empty()
        if self._network.others_are_due():
            await asyncio.sleep(0)
        return message
