"""Unary calls: how they end, on both sides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from support.grpc_scenarios import LONG_S, PAUSE_S, pause, scenario, until_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.grpc_rig import Rig


@scenario
async def unary_ok(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        rig.handler.append(f"got {request.decode()}")
        return b"answer"

    await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"question")
    await rig.saw(call, "call")
    await rig.saw(call, "again")
    await rig.saw(call.code(), "code")
    rig.client.append(f"done {call.done()} cancelled {call.cancelled()} cancel {call.cancel()}")


@scenario
async def unary_abort(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        try:
            await context.abort(grpc.StatusCode.NOT_FOUND, "app: no such thing")
        except BaseException as error:
            rig.handler.append(type(error).__name__)
            raise
        finally:
            rig.ended.set()
        return b""

    await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"")
    await rig.saw(call)
    await rig.saw(call.details(), "details")
    await rig.ended.wait()  # the status may arrive before the handler goes on


@scenario
async def unary_exception(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        raise ValueError("of the handler")

    await rig.serve(UnaryUnary=serve)
    await rig.saw(rig.method("UnaryUnary")(b""))


@scenario
async def unary_set_code(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
        context.set_details("app: too much")
        return b"ignored"

    await rig.serve(UnaryUnary=serve)
    await rig.saw(rig.method("UnaryUnary")(b""))


@scenario
async def unary_deadline(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        # A busy machine begins it when nothing is left; gRPC rounds to milliseconds.
        rig.handler.append(f"has deadline {0 <= context.time_remaining() < 1.5 * PAUSE_S}")
        await until_cancelled(rig)
        return b""

    await rig.serve(UnaryUnary=serve)
    await rig.saw(rig.method("UnaryUnary")(b"", timeout=PAUSE_S))
    await rig.ended.wait()


@scenario
async def unary_deadline_already_over(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        rig.handler.append("called")
        return b""

    await rig.serve(UnaryUnary=serve)
    await rig.saw(rig.method("UnaryUnary")(b"", timeout=-1.0))
    await pause()


@scenario
async def unary_handler_that_outlives_the_deadline(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            rig.handler.append("cancelled")
        await pause()
        rig.handler.append(f"on: done {context.done()} cancelled {context.cancelled()}")
        rig.ended.set()
        return b"too late"

    await rig.serve(UnaryUnary=serve)
    await rig.saw(rig.method("UnaryUnary")(b"", timeout=PAUSE_S))
    await rig.ended.wait()
    await pause()


@scenario
async def unary_no_deadline(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        rig.handler.append(f"remaining {context.time_remaining()}")
        return b""

    await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"")
    rig.client.append(f"remaining {call.time_remaining()}")
    await rig.saw(call)


@scenario
async def unary_cancel_before_it_starts(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        rig.handler.append("called")
        return b""

    await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"")
    rig.client.append(f"cancel {call.cancel()} {call.cancel()}")
    await rig.saw(call)
    await rig.saw(call.code(), "code")
    await rig.saw(call.details(), "details")
    await pause()


@scenario
async def unary_cancel_during(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        context.add_done_callback(lambda _: rig.handler.append("done callback"))
        await until_cancelled(rig)
        return b""

    await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"")
    call.add_done_callback(lambda _: rig.client.append("done callback"))
    await pause()
    rig.client.append(f"cancel {call.cancel()}")
    await rig.saw(call)
    await rig.saw(call.code(), "code")
    await rig.ended.wait()
    await pause()


@scenario
async def unary_awaiting_task_cancelled(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        await until_cancelled(rig)
        return b""

    await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"")
    try:
        async with asyncio.timeout(PAUSE_S):
            await call
    except TimeoutError:
        rig.client.append("timeout")
    rig.client.append(f"cancelled {call.cancelled()}")
    await rig.saw(call.code(), "code")
    await rig.ended.wait()


@scenario
async def unary_handler_that_swallows_the_cancellation(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            rig.handler.append("cancelled")
        rig.ended.set()
        return b"all the same"

    await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"")
    await pause()
    call.cancel()
    await rig.ended.wait()
    await rig.saw(call)
    await pause()


@scenario
async def unary_handler_cancels_itself(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        raise asyncio.CancelledError

    await rig.serve(UnaryUnary=serve)
    await rig.saw(rig.method("UnaryUnary")(b"", timeout=4 * PAUSE_S))


@scenario
async def unary_no_such_method(rig: Rig) -> None:
    await rig.serve()
    await rig.saw(rig.method("UnaryUnary")(b""))


@scenario
async def unary_generator_instead_of_a_result(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"

    await rig.serve(UnaryStream=serve)
    await rig.saw(rig.method("UnaryStream")(b"").read())


@scenario
async def metadata_both_ways(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        found = [f"{k}={v}" for k, v in context.invocation_metadata() if k in ("who", "raw-bin")]
        rig.handler.append(", ".join(found))
        await context.send_initial_metadata((("first", "1"),))
        context.set_trailing_metadata((("last", "9"),))
        return b"answer"

    await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"", metadata=(("who", "me"), ("raw-bin", b"\x00\xff")))
    await rig.saw(call)
    rig.client.append(f"initial {[tuple(m) for m in await call.initial_metadata()]}")
    rig.client.append(f"trailing {[tuple(m) for m in await call.trailing_metadata()]}")


@scenario
async def metadata_of_an_abort(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.ABORTED, "app: so", (("why", "because"),))
        return b""

    await rig.serve(UnaryUnary=serve)
    try:
        await rig.method("UnaryUnary")(b"")
    except grpc.aio.AioRpcError as error:
        trailing = error.trailing_metadata() or ()
        rig.client.append(f"{error.code().name} {[tuple(m) for m in trailing]}")


@scenario
async def concurrent_calls(rig: Rig) -> None:
    gate = asyncio.Event()

    async def serve(request: bytes, context: Any) -> bytes:
        if request != b"0":
            await gate.wait()
        else:
            gate.set()
        return b"answer " + request

    await rig.serve(UnaryUnary=serve)
    method = rig.method("UnaryUnary")
    for result in await asyncio.gather(*(method(b"%d" % n) for n in (1, 2, 3, 0))):
        rig.client.append(result.decode())
