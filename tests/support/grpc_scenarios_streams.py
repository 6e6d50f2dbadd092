"""Streams in one direction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from support.grpc_scenarios import PAUSE_S, pause, scenario, until_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.grpc_rig import Rig


@scenario
async def server_stream_by_generator(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        for n in range(3):
            yield b"%d" % n

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"")
    async for message in call:
        rig.client.append(message.decode())
    await rig.saw(call.code(), "code")


@scenario
async def server_stream_read_past_its_end(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> None:
        await context.write(b"only")

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"")
    for _ in range(4):
        await rig.saw(call.read(), "read")
    await rig.saw(call.code(), "code")


@scenario
async def server_stream_error_after_messages(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await pause()
        raise ValueError("of the handler")

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"")
    for _ in range(3):
        await rig.saw(call.read(), "read")


@scenario
async def server_stream_iterated_to_an_error(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await pause()
        await context.abort(grpc.StatusCode.ABORTED, "app: enough")

    await rig.serve(UnaryStream=serve)
    iterator = rig.method("UnaryStream")(b"").__aiter__()
    for _ in range(3):
        await rig.saw(iterator.__anext__())


@scenario
async def server_stream_status_waits_for_the_reader(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"")
    await pause()
    rig.client.append(f"done {call.done()}")
    for _ in range(3):
        await rig.saw(call.read(), "read")
    rig.client.append(f"done {call.done()}")


@scenario
async def server_stream_abort_with_unread_messages(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"
        yield b"three"
        await context.abort(grpc.StatusCode.ABORTED, "app: enough")

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"")
    await pause()
    rig.client.append(f"done {call.done()}")
    for _ in range(5):
        await rig.saw(call.read(), "read")


@scenario
async def server_stream_deadline(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await until_cancelled(rig)

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"", timeout=PAUSE_S)
    for _ in range(3):
        await rig.saw(call.read(), "read")
    await rig.ended.wait()


@scenario
async def server_stream_deadline_with_unread_messages(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"
        await until_cancelled(rig)

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"", timeout=PAUSE_S)
    await asyncio.sleep(2 * PAUSE_S)
    rig.client.append(f"done {call.done()}")
    for _ in range(3):
        await rig.saw(call.read(), "read")
    await rig.ended.wait()


@scenario
async def server_stream_cancelled_by_the_client(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            yield b"one"
            await until_cancelled(rig)
        finally:
            rig.handler.append("finally")

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"")
    await rig.saw(call.read(), "read")
    await rig.working.wait()
    call.cancel()
    await rig.saw(call.read(), "read")
    await rig.saw(call.code(), "code")
    await rig.ended.wait()
    await pause()


@scenario
async def server_stream_reader_timed_out(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await until_cancelled(rig)

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"")
    await rig.saw(call.read(), "read")
    try:
        async with asyncio.timeout(PAUSE_S):
            await call.read()
    except TimeoutError:
        rig.client.append("timeout")
    rig.client.append(f"done {call.done()}")
    await rig.saw(call.read(), "read")
    await rig.ended.wait()


@scenario
async def client_stream(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> bytes:
        got = [message.decode() async for message in requests]
        rig.handler.append(" ".join(got))
        return b"%d" % len(got)

    await rig.serve(StreamUnary=serve)
    call = rig.method("StreamUnary")()
    for n in range(3):
        await rig.saw(call.write(b"%d" % n), "write")
    await rig.saw(call.done_writing(), "done writing")
    await rig.saw(call)
    await rig.saw(call.write(b"late"), "write")


@scenario
async def client_stream_by_iterator(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> bytes:
        return b" ".join([message async for message in requests])

    async def source() -> AsyncIterator[bytes]:
        for n in range(3):
            await asyncio.sleep(0)
            yield b"%d" % n

    await rig.serve(StreamUnary=serve)
    await rig.saw(rig.method("StreamUnary")(source()))
    await rig.saw(rig.method("StreamUnary")([b"a", b"b"]))


@scenario
async def client_stream_answered_early(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> bytes:
        rig.handler.append((await requests.__anext__()).decode())
        return b"enough"

    await rig.serve(StreamUnary=serve)
    call = rig.method("StreamUnary")()
    await rig.saw(call.write(b"0"), "write")
    await rig.saw(call)
    await rig.saw(call.write(b"1"), "write")
