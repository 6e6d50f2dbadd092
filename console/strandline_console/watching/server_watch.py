"""The watch of one server: its stream, read until it ends, and opened again with back-off.

A server that stops sending is absent after a few seconds: a paused process keeps its connections.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Protocol

import grpc
import grpc.aio

from strandline_console.watching.broker_report import BrokerReport
from strandline_console.watching.event_text import tell
from strandline_proto.v1 import watch_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from strandline_console.messages import ServerState
    from strandline_console.recording.live import Live
    from strandline_console.watching.controller_report import ControllerReport
    from strandline_runtime.runtime import Clock

SILENCE_S: Final = 3.0
"""A server sends a frame each second."""
CONNECT_S: Final = 3.0
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
WITHOUT_WATCH_S: Final = 15.0
"""Time until an older server is asked again: it may have been upgraded."""
LATE_MS: Final = 5_000
_SEEN_MAX: Final = 10_000


class WrongServer(Exception):
    """Another process answers at the address."""


class Frames(Protocol):
    """Opens the stream of a server at an address."""

    def __call__(self, address: str) -> AsyncGenerator[watch_pb2.WatchResponse]: ...


class Settled:
    """The state of a server, and the event when it changes."""

    def __init__(self, live: Live, server: str, now_ms: Callable[[], int]) -> None:
        self._live = live
        self._server = server
        self._now_ms = now_ms

    def set(self, state: ServerState, reason: str | None) -> None:
        known = self._live.maps["servers"].get(self._server)
        before = None if known is None else known["state"]
        fields = {"state": state, "reason": reason}
        if state == before:
            self._live.set("servers", self._server, fields)
            return
        self._live.set("servers", self._server, {**fields, "state_since_ms": self._now_ms()})
        if state == "connecting":
            return
        said = {
            "watching": f"the console watches {self._server}",
            "absent": f"{self._server} is absent: {reason}",
            "without_watch": f"{self._server} has no watch: {reason}",
        }[state]
        self._live.event("server", said, details={"server": self._server, "state": state})


class ServerWatch:
    """Watches the server `server`, `controller` or `broker-1`, at `address()` as it is then."""

    def __init__(
        self,
        server: str,
        address: Callable[[], str | None],
        report: BrokerReport | ControllerReport,
        *,
        live: Live,
        frames: Frames,
        clock: Clock,
        on_lost: Callable[[], None],
        backoff_s: tuple[float, ...] = BACKOFF_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._server = server
        self._address = address
        self._report = report
        self._live = live
        self._frames = frames
        self._clock = clock
        self._on_lost = on_lost
        self._backoff_s = backoff_s
        self._silence_s = silence_s
        self._settled = Settled(live, server, self._now_ms)
        self._incarnation: str | None = None
        self._seen: set[int] = set()
        self._parts: list[watch_pb2.WatchResponse] = []
        self._wake = asyncio.Event()
        self._failures = 0

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)

    def wake(self) -> None:
        """Connect now: there is news of the server, such as another address."""
        self._wake.set()

    async def run(self) -> None:
        """Watch until the task is cancelled."""
        while True:
            wait_s = await self._attempt()
            self._wake.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _attempt(self) -> float:
        """One stream, to its end. Returns the time until the next attempt."""
        address = self._address()
        if address is None:
            self._settled.set("absent", "the controller knows no address of it")
            return self._wait_s()
        self._live.set("servers", self._server, {"address": address})
        self._parts.clear()
        try:
            await self._read(address)
            reason = f"{address} ended the stream"
        except TimeoutError:
            reason = f"{address} has sent nothing for {self._silence_s:g} s"
        except WrongServer as why:
            reason = str(why)
        except grpc.aio.AioRpcError as why:
            if why.code() is grpc.StatusCode.UNIMPLEMENTED:
                self._settled.set(
                    "without_watch", f"the build at {address} has no Watch call: upgrade it"
                )
                return WITHOUT_WATCH_S
            reason = transport_reason(why, address)
        self._settled.set("absent", reason)
        self._on_lost()
        return self._wait_s()

    def _wait_s(self) -> float:
        wait_s = self._backoff_s[min(self._failures, len(self._backoff_s) - 1)]
        self._failures += 1
        return wait_s

    async def _read(self, address: str) -> None:
        async with aclosing(self._frames(address)) as stream:
            while True:
                async with asyncio.timeout(self._silence_s):
                    frame = await anext(stream, None)
                if frame is None:
                    return
                if frame.error_code != 0:
                    raise WrongServer(
                        f"{address} answered with error {frame.error_code}: {frame.error_message}"
                    )
                await self._take(frame, address)

    async def _take(self, frame: watch_pb2.WatchResponse, address: str) -> None:
        is_controller = frame.server == watch_pb2.WATCHED_SERVER_CONTROLLER
        name = "controller" if is_controller else f"broker-{frame.node_id}"
        if name != self._server:
            raise WrongServer(
                f"{name} answers at {address}, which is the address of {self._server}"
            )
        self._failures = 0
        if frame.keyframe:
            self._parts.clear()
        self._parts.append(frame)
        if frame.continues:
            return
        parts, self._parts = self._parts, []
        await self._apply(parts)

    async def _apply(self, parts: list[watch_pb2.WatchResponse]) -> None:
        last = parts[-1]
        now_ms = self._now_ms()
        if last.incarnation_id != self._incarnation:
            self._incarnation = last.incarnation_id
            self._seen.clear()
        # Only then: events below refer to the entries of the keyframe.
        await self._apply_state(parts)
        self._live.set(
            "servers",
            self._server,
            {
                "incarnation": last.incarnation_id,
                "node_id": last.node_id,
                "last_event_ms": now_ms,
                "server_time_ms": last.time_ms,
            },
        )
        self._settled.set("watching", None)
        for part in parts:
            for event in part.events:
                self._take_event(event, part.time_ms, now_ms)
            if part.events_lost > 0:
                self._live.event(
                    "server",
                    f"{part.events_lost} events of {self._server} were not reported",
                    details={"server": self._server, "lost": part.events_lost},
                )

    async def _apply_state(self, parts: list[watch_pb2.WatchResponse]) -> None:
        report = self._report
        if not parts[0].keyframe:
            await self._take_parts(parts)
        elif isinstance(report, BrokerReport):
            known = report.restart()
            await self._take_parts(parts)
            report.drop(known)
        else:
            known_partitions = report.restart()
            await self._take_parts(parts)
            report.drop(known_partitions)

    async def _take_parts(self, parts: list[watch_pb2.WatchResponse]) -> None:
        """Take the parts of a frame. The event loop has a turn after each: a server with thousands
        of partitions sends many.
        """
        for part in parts:
            self._report.take(part)
            await asyncio.sleep(0)

    def _take_event(self, event: watch_pb2.WatchEvent, frame_ms: int, now_ms: int) -> None:
        if event.number in self._seen:
            return
        if len(self._seen) >= _SEEN_MAX:
            self._seen = set(sorted(self._seen)[_SEEN_MAX // 2 :])
        self._seen.add(event.number)
        is_late = event.time_ms < frame_ms - LATE_MS
        tell(self._live, self._server, event, is_late=is_late)
        if event.HasField("truncation") and isinstance(self._report, BrokerReport):
            self._report.add_ghost(event.truncation, time_ms=event.time_ms, at_ms=now_ms)


def transport_reason(why: grpc.aio.AioRpcError, address: str) -> str:
    """The reason of a failed call in words, without gRPC's own text where the case is plain."""
    details = " ".join((why.details() or "").split())
    if "Connection refused" in details:
        return f"{address} refuses connections: nothing listens there"
    if "Socket closed" in details or "Connection reset" in details:
        return f"{address} closed the connection"
    if "DNS resolution failed" in details or "errors resolving" in details:
        return f"{address} has a host name that does not resolve"
    if why.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"{address} does not answer in time"
    return f"{address} does not answer: {details[:200] or why.code().name}"
