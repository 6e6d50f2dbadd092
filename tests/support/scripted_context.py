"""The other end of a stream that a handler writes to, as gRPC shows it to the handler."""

from __future__ import annotations

import asyncio
from typing import Any


class ScriptedContext:
    def __init__(self) -> None:
        self.written: list[Any] = []
        self.takes = asyncio.Event()
        """Set unless a test has the other end take nothing."""
        self.takes.set()

    async def send_initial_metadata(self, metadata: object) -> None:
        pass

    async def write(self, response: object) -> None:
        await self.takes.wait()
        self.written.append(response)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"
