"""Small scenarios of byte streams, run over real TCP and over the simulated network.

A scenario notes what its client and its server see; both worlds must note the same. `PAUSE_S` is
long against any latency here, so that an order by pauses is certain.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_runtime.runtime import ByteStream, Listener, Network

    Scenario = Callable[["StreamRig"], Awaitable[None]]

PAUSE_S = 0.1
SCENARIOS: dict[str, Scenario] = {}
MUCH = bytes(range(256)) * 8192
"""2 MiB: more than any socket buffer of the two worlds takes at once."""
TOO_MUCH = 64 << 20
"""No socket buffer takes as much, however far the kernel lets it grow."""


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__] = run
    return run


def told(data: bytes) -> str:
    if len(data) <= 32:
        return repr(data)
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:8]}"


class StreamRig:
    """A listener, its accepted streams in order, and what both sides saw."""

    def __init__(self, server_side: Network, client_side: Network, host: str) -> None:
        self.client: list[str] = []
        self.server: list[str] = []
        self.accepted: asyncio.Queue[ByteStream] = asyncio.Queue()
        self.host = host
        self.port = 0
        self.server_side = server_side
        self._client_side = client_side
        self._streams: list[ByteStream] = []
        self._listeners: list[Listener] = []

    async def listen(self, port: int = 0) -> Listener:
        listener = await self.server_side.listen(self.host, port, self._accept)
        self._listeners.append(listener)
        self.port = listener.port
        return listener

    def _accept(self, stream: ByteStream) -> None:
        self._streams.append(stream)
        self.accepted.put_nowait(stream)

    async def connect(self) -> ByteStream:
        stream = await self._client_side.connect(self.host, self.port)
        self._streams.append(stream)
        return stream

    async def pair(self) -> tuple[ByteStream, ByteStream]:
        """The client's end and the server's."""
        await self.listen()
        near = await self.connect()
        return near, await self.accepted.get()

    async def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for stream in self._streams:
            stream.abort()
            await stream.closed()


async def saw(notes: list[str], step: Awaitable[object], what: str = "") -> None:
    """Note what awaiting it gave."""
    try:
        result = await step
    except asyncio.IncompleteReadError as error:
        seen = f"incomplete {told(error.partial)}"
    except (ConnectionError, OSError) as error:
        seen = type(error).__name__
    else:
        seen = told(result) if isinstance(result, bytes) else str(result)
    notes.append(f"{what} {seen}".strip())


async def read_to_the_end(stream: ByteStream) -> bytes:
    got = bytearray()
    while data := await stream.read(10_000):
        got += data
    return bytes(got)


async def write_all(stream: ByteStream, data: bytes) -> str:
    for start in range(0, len(data), 50_000):
        stream.write(data[start : start + 50_000])
        await stream.drain()
    return "written"


async def until_it_breaks(step: Callable[[], Awaitable[object]]) -> str:
    """A broken connection shows at the first write or at one soon after."""
    for _ in range(100):
        try:
            await step()
        except ConnectionError:
            return "ConnectionError"
        await asyncio.sleep(PAUSE_S / 10)
    return "never broke"


@scenario
async def bytes_both_ways(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.write(b"question")
    await saw(rig.server, far.read_exactly(8))
    far.write(b"ans")
    far.write(b"wer")
    await saw(rig.client, near.read_exactly(6))


@scenario
async def no_borders_between_writes(rig: StreamRig) -> None:
    near, far = await rig.pair()
    for n in range(10):
        near.write(b"%d" % n)
    await saw(rig.server, far.read_exactly(3))
    await saw(rig.server, far.read_exactly(7))


@scenario
async def a_read_takes_at_most_what_it_asks_for(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.write(b"abcdef")
    await asyncio.sleep(PAUSE_S)
    await saw(rig.server, far.read(4))
    near.close()
    rest = b"".join([await far.read(100), await far.read(100)])
    rig.server.append(told(rest))


@scenario
async def much_arrives_whole(rig: StreamRig) -> None:
    near, far = await rig.pair()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(saw(rig.client, write_all(near, MUCH)))
        await saw(rig.server, far.read_exactly(len(MUCH)))


@scenario
async def much_both_ways_at_once(rig: StreamRig) -> None:
    near, far = await rig.pair()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write_all(near, MUCH))
        tasks.create_task(write_all(far, MUCH[::-1]))
        tasks.create_task(saw(rig.server, far.read_exactly(len(MUCH))))
        tasks.create_task(saw(rig.client, near.read_exactly(len(MUCH))))


@scenario
async def closing_sends_what_is_queued(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.write(MUCH)
    near.close()
    await saw(rig.server, read_to_the_end(far))
    await saw(rig.server, far.read(1), "again")
    await saw(rig.client, near.closed(), "closed")


@scenario
async def closed_before_all_has_come(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.write(b"half")
    near.close()
    await saw(rig.server, far.read_exactly(8))


@scenario
async def the_server_closes(rig: StreamRig) -> None:
    near, far = await rig.pair()
    far.write(b"bye")
    far.close()
    await saw(rig.client, read_to_the_end(near))


@scenario
async def an_answer_to_who_has_closed_breaks_the_connection(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.close()
    await saw(rig.server, far.read(1))

    async def answer() -> None:
        far.write(b"too late")
        await far.drain()

    rig.server.append(await until_it_breaks(answer))


@scenario
async def aborted_while_the_other_side_reads(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.write(b"x")
    await saw(rig.server, far.read_exactly(1))
    far.write(b"not read by the client")
    await asyncio.sleep(PAUSE_S)
    near.abort()
    await asyncio.sleep(PAUSE_S)
    rig.server.append(await until_it_breaks(lambda: saw_break(far)))


async def saw_break(stream: ByteStream) -> None:
    """A reset shows as an error, or as the end of the bytes and an error of the next write."""
    await stream.read(1)
    stream.write(b"y")
    await stream.drain()


@scenario
async def written_after_close_is_dropped(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.write(b"one")
    near.close()
    near.write(b"two")
    await saw(rig.server, read_to_the_end(far))


@scenario
async def a_reader_that_stands_still_stops_its_writer(rig: StreamRig) -> None:
    near, far = await rig.pair()
    written = 0

    async def write() -> None:
        nonlocal written
        while written < TOO_MUCH:
            near.write(bytes(64 << 10))
            written += 64 << 10
            await near.drain()

    try:
        async with asyncio.timeout(20 * PAUSE_S):
            await write()
    except TimeoutError:
        rig.client.append(f"stands still {0 < written < TOO_MUCH}")
    near.close()
    rig.server.append(str(len(await read_to_the_end(far)) == written))


@scenario
async def closing_waits_for_a_reader_and_abort_does_not(rig: StreamRig) -> None:
    near, _ = await rig.pair()
    near.write(bytes(TOO_MUCH))
    near.close()
    try:
        async with asyncio.timeout(3 * PAUSE_S):
            await near.closed()
    except TimeoutError:
        rig.client.append("waits")
    near.abort()
    await saw(rig.client, near.closed(), "closed")


@scenario
async def a_cancelled_read_takes_nothing(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.write(b"abc")
    try:
        async with asyncio.timeout(PAUSE_S):
            await far.read_exactly(6)
    except TimeoutError:
        rig.server.append("cancelled")
    near.write(b"def")
    await saw(rig.server, far.read_exactly(6))


@scenario
async def a_long_cancelled_read_takes_nothing(rig: StreamRig) -> None:
    near, far = await rig.pair()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write_all(near, MUCH[:-1]))
        try:
            async with asyncio.timeout(10 * PAUSE_S):
                await far.read_exactly(len(MUCH))
        except TimeoutError:
            rig.server.append("cancelled")
    near.write(MUCH[-1:])
    await saw(rig.server, far.read_exactly(len(MUCH)))


@scenario
async def nothing_listens(rig: StreamRig) -> None:
    listener = await rig.listen()
    listener.close()
    await asyncio.sleep(PAUSE_S)
    await saw(rig.client, rig.connect())


@scenario
async def a_closed_listener_leaves_its_connections(rig: StreamRig) -> None:
    listener = await rig.listen()
    near = await rig.connect()
    far = await rig.accepted.get()
    listener.close()
    await asyncio.sleep(PAUSE_S)
    await saw(rig.client, rig.connect(), "new")
    near.write(b"still here")
    await saw(rig.server, far.read_exactly(10))


@scenario
async def a_port_that_is_taken(rig: StreamRig) -> None:
    await rig.listen()
    try:
        await rig.listen(rig.port)
    except OSError as error:
        rig.server.append(errno.errorcode[error.errno or 0])


@scenario
async def a_port_that_is_free_again(rig: StreamRig) -> None:
    listener = await rig.listen()
    listener.close()
    await asyncio.sleep(PAUSE_S)
    await rig.listen(listener.port)
    near = await rig.connect()
    far = await rig.accepted.get()
    near.write(b"here")
    await saw(rig.server, far.read_exactly(4))


@scenario
async def many_connections(rig: StreamRig) -> None:
    await rig.listen()
    streams = [await rig.connect() for _ in range(20)]
    for n, stream in enumerate(streams):
        stream.write(b"%02d" % n)
    found = [await (await rig.accepted.get()).read_exactly(2) for _ in streams]
    rig.server.append(repr(sorted(found)))


@scenario
async def nothing_is_read_of_nothing(rig: StreamRig) -> None:
    near, far = await rig.pair()
    near.write(b"")
    near.write(memoryview(b"view"))
    near.write(bytearray(b"array"))
    await saw(rig.server, far.read_exactly(9))
    await saw(rig.server, far.read_exactly(0), "none")
