"""Streams in both directions, as Produce, Fetch, heartbeats and pushes are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from support.grpc_rig import Rig, outcome
from support.grpc_scenarios import LONG_S, PAUSE_S, echo, pause, scenario, until_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable


@scenario
async def bidi_echo(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await echo(rig, context)

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    for n in range(3):
        await rig.saw(call.write(b"%d" % n), "write")
        await rig.saw(call.read(), "read")
    await rig.saw(call.done_writing(), "done writing")
    await rig.saw(call.write(b"late"), "write")
    await rig.saw(call.read(), "read")
    await rig.saw(call.read(), "read")
    await rig.saw(call.code(), "code")


@scenario
async def bidi_handler_iterates(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for message in requests:
            yield b"echo " + message
        rig.handler.append("EOF")
        yield b"last"

    async def source() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    await rig.serve(StreamStream=serve)
    async for message in rig.method("StreamStream")(source()):
        rig.client.append(message.decode())


@scenario
async def bidi_messages_written_ahead(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await pause()
        await echo(rig, context)

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    for n in range(5):
        await rig.saw(call.write(b"%d" % n), "write")
    await call.done_writing()
    for _ in range(6):
        await rig.saw(call.read(), "read")


@scenario
async def bidi_handler_keeps_the_stream_after_the_client_finished(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await echo(rig, context)
        for n in range(2):
            await pause()
            await context.write(b"more %d" % n)
        rig.handler.append("end")

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await call.write(b"0")
    await call.done_writing()
    for _ in range(4):
        await rig.saw(call.read(), "read")


@scenario
async def bidi_handler_returns_early(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await rig.handler_saw(context.read(), "read")
        await context.write(b"last")

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await call.write(b"0")
    await rig.saw(call.read(), "read")
    await pause()
    rig.client.append(f"done {call.done()}")
    await rig.saw(call.write(b"1"), "write")
    await rig.saw(call.read(), "read")
    await rig.saw(call.code(), "code")


@scenario
async def bidi_write_to_an_ended_call_with_unread_messages(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.write(b"one")
        await context.write(b"two")

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await pause()
    rig.client.append(f"done {call.done()}")
    await rig.saw(call.write(b"1"), "write")
    await rig.saw(call.read(), "read")
    await rig.saw(call.read(), "read")
    await rig.saw(call.read(), "read")
    await rig.saw(call.code(), "code")


@scenario
async def bidi_aborted_by_the_handler(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await rig.handler_saw(context.read(), "read")
        await context.abort(grpc.StatusCode.ABORTED, "app: replaced")

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await call.write(b"0")
    await rig.saw(call.read(), "read")
    await rig.saw(call.write(b"1"), "write")
    await rig.saw(call.read(), "read")


@scenario
async def bidi_reader_waits_while_the_handler_aborts(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await pause()
        await context.abort(grpc.StatusCode.ABORTED, "app: replaced")

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await rig.saw(call.read(), "read")
    rig.client.append(f"done {call.done()}")
    await rig.saw(call.done_writing(), "done writing")


@scenario
async def bidi_exception_in_the_handler(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        async for message in requests:
            raise ValueError(message.decode())

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await call.write(b"0")
    await rig.saw(call.read(), "read")


@scenario
async def bidi_cancelled_by_the_client_while_the_handler_reads(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        try:
            await context.write(b"hello")
            while await rig.handler_saw(context.read(), "read") != "EOF":
                pass
        finally:
            rig.ended.set()

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await rig.saw(call.read(), "read")
    await call.write(b"0")
    await pause()
    rig.client.append(f"cancel {call.cancel()}")
    await rig.saw(call.read(), "read")
    await rig.saw(call.write(b"1"), "write")
    await rig.ended.wait()
    await pause()


@scenario
async def bidi_cancelled_while_the_client_reads(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await until_cancelled(rig)

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    asyncio.get_running_loop().call_later(PAUSE_S, call.cancel)
    await rig.saw(call.read(), "read")
    await rig.saw(call.read(), "read")
    await rig.ended.wait()


@scenario
async def bidi_handler_writes_after_the_client_cancelled(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.write(b"hello")
        rig.working.set()
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            rig.handler.append("cancelled")
        await pause()
        rig.handler.append(f"done {context.done()}")
        await _note(rig, context.write(b"too late"), "write")
        await _note(rig, context.read(), "read")
        await _note(rig, context.abort(grpc.StatusCode.INTERNAL, "app: no"), "abort")
        rig.ended.set()

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await rig.saw(call.read(), "read")
    await rig.working.wait()
    call.cancel()
    await rig.ended.wait()


async def _note(rig: Rig, step: Awaitable[Any], what: str) -> None:
    rig.handler.append(f"{what} {await outcome(_uncancelled(step))}")


async def _uncancelled(step: Awaitable[Any]) -> Any:
    task = asyncio.current_task()
    while task is not None and task.cancelling() > 0:
        task.uncancel()
    return await step


@scenario
async def bidi_deadline(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        try:
            async for message in requests:
                await context.write(message)
        finally:
            rig.handler.append("ended")
            rig.ended.set()

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")(timeout=2 * PAUSE_S)
    await call.write(b"0")
    await rig.saw(call.read(), "read")
    await rig.saw(call.read(), "read")
    await rig.saw(call.write(b"1"), "write")
    await rig.ended.wait()


@scenario
async def bidi_handler_with_children_cancelled(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        async def write() -> None:
            try:
                while True:
                    await asyncio.sleep(PAUSE_S / 3)
                    await context.write(b"tick")
            finally:
                rig.handler.append("writer ended")

        try:
            async with asyncio.TaskGroup() as group:
                writer = group.create_task(write())
                try:
                    async for message in requests:
                        rig.handler.append(message.decode())
                finally:
                    writer.cancel()
        finally:
            rig.handler.append("handler ended")
            rig.ended.set()

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await call.write(b"0")
    await rig.saw(call.read(), "read")
    call.cancel()
    await rig.ended.wait()


@scenario
async def bidi_read_of_the_handler_timed_out(rig: Rig) -> None:
    """The operation stays under way in the transport, and takes the next message with it."""

    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        try:
            async with asyncio.timeout(PAUSE_S):
                await context.read()
        except TimeoutError:
            rig.handler.append("timeout")
        await context.write(b"go")
        await pause()
        await rig.handler_saw(context.read(), "read")
        await rig.handler_saw(context.read(), "read")

    await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await rig.saw(call.read(), "read")
    await call.write(b"first")
    await call.write(b"second")
    await rig.saw(call.done_writing(), "done writing")
    await rig.saw(call.read(), "read")


@scenario
async def read_and_iteration_are_not_mixed(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    await rig.serve(UnaryStream=serve)
    call = rig.method("UnaryStream")(b"")
    await rig.saw(call.read(), "read")
    try:
        call.__aiter__()
    except Exception as error:  # noqa: BLE001 - its type is what is compared
        rig.client.append(type(error).__name__)
