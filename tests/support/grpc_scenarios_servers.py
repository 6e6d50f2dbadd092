"""Servers and channels that come and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from support.grpc_scenarios import LONG_S, PAUSE_S, pause, scenario, until_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.grpc_rig import Rig


@scenario
async def connection_refused(rig: Rig) -> None:
    server = await rig.serve()
    await server.stop(None)
    await rig.saw(rig.method("UnaryUnary")(b""))
    call = rig.method("StreamStream")()
    await rig.saw(call.write(b"0"), "write")
    await rig.saw(call.read(), "read")
    await rig.saw(rig.method("StreamStream")().read(), "read")
    await rig.saw(rig.method("UnaryStream")(b"").read(), "read")
    await rig.saw(rig.probe(), "probe")


@scenario
async def wait_for_ready_until_the_deadline(rig: Rig) -> None:
    server = await rig.serve()
    await server.stop(None)
    await rig.saw(rig.method("UnaryUnary")(b"", wait_for_ready=True, timeout=PAUSE_S))


@scenario
async def wait_for_ready_until_a_server_comes(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        return b"here"

    server = await rig.serve()
    await server.stop(None)
    call = rig.method("UnaryUnary")(b"", wait_for_ready=True, timeout=LONG_S)
    await pause()
    await rig.bound(rig.port, UnaryUnary=serve).start()
    await rig.saw(call)


@scenario
async def port_in_use(rig: Rig) -> None:
    await rig.serve()
    try:
        rig.bound(rig.port)
    except RuntimeError:
        rig.client.append("RuntimeError")
    await rig.saw(rig.probe(), "probe")


@scenario
async def bound_and_not_started(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        return b"here"

    server = rig.bound(UnaryUnary=serve)
    await rig.saw(rig.probe(), "probe")
    call = rig.method("UnaryUnary")(b"", wait_for_ready=True, timeout=LONG_S)
    await pause()
    rig.client.append(f"done {call.done()}")
    await server.start()
    await rig.saw(call)


@scenario
async def server_stopped_at_once(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.write(b"hello")
        await until_cancelled(rig)

    server = await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await rig.saw(call.read(), "read")
    await rig.working.wait()
    await server.stop(None)
    await rig.ended.wait()
    await rig.saw(call.read(), "read")
    await rig.saw(rig.method("UnaryUnary")(b""), "new call")
    await rig.saw(rig.probe(), "probe")


@scenario
async def server_stopped_with_grace(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.write(b"hello")
        await rig.handler_saw(context.read(), "read")
        await context.write(b"bye")

    server = await rig.serve(StreamStream=serve)
    call = rig.method("StreamStream")()
    await rig.saw(call.read(), "read")
    stopping = asyncio.ensure_future(server.stop(LONG_S))
    await pause()
    await rig.saw(rig.probe(), "probe")
    await rig.saw(rig.method("UnaryUnary")(b""), "new call")
    rig.client.append(f"stopping {not stopping.done()}")
    await rig.saw(call.write(b"0"), "write")
    await rig.saw(call.read(), "read")
    await rig.saw(call.read(), "read")
    await stopping
    await rig.saw(server.wait_for_termination(), "terminated")


@scenario
async def server_stopped_and_the_grace_is_over(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        await until_cancelled(rig)
        return b""

    server = await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"")
    await pause()
    await server.stop(PAUSE_S)
    rig.client.append("stopped")
    await rig.saw(call)
    await rig.ended.wait()


@scenario
async def server_stop_does_not_wait_for_a_handler_that_goes_on(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            rig.handler.append("cancelled")
        await asyncio.sleep(4 * PAUSE_S)
        rig.handler.append("end")
        rig.ended.set()
        return b"late"

    server = await rig.serve(UnaryUnary=serve)
    call = rig.method("UnaryUnary")(b"")
    await pause()
    await server.stop(None)
    rig.client.append(f"stopped, handler ended {rig.ended.is_set()}")
    await rig.saw(call)
    await rig.ended.wait()
    await pause()


@scenario
async def idle_server_stops_at_once(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        return b"here"

    server = await rig.serve(UnaryUnary=serve)
    await rig.saw(rig.method("UnaryUnary")(b""))
    async with asyncio.timeout(LONG_S / 2):
        await server.stop(LONG_S)
    await server.stop(LONG_S)
    rig.client.append("stopped")


@scenario
async def server_comes_back_on_its_port(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        return b"answer"

    server = await rig.serve(UnaryUnary=serve)
    await rig.saw(rig.method("UnaryUnary")(b""))
    await server.stop(None)
    await pause()
    await rig.bound(rig.port, UnaryUnary=serve).start()
    call = rig.method("UnaryUnary")(b"", wait_for_ready=True, timeout=LONG_S)
    await rig.saw(call)


@scenario
async def channel_closed_under_calls(rig: Rig) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.write(b"hello")
        await until_cancelled(rig)

    await rig.serve(StreamStream=serve)
    channel = rig.channel()
    call = rig.method("StreamStream", channel)()
    await rig.saw(call.read(), "read")
    await rig.working.wait()
    await channel.close()
    await rig.saw(call.read(), "read")
    await rig.saw(call.code(), "code")
    await rig.ended.wait()


@scenario
async def channel_closed_before_a_call(rig: Rig) -> None:
    await rig.serve()
    channel = rig.channel()
    method = rig.method("UnaryUnary", channel)
    await channel.close()
    try:
        await rig.saw(method(b""))
    except Exception as error:  # noqa: BLE001 - its type is what is compared
        rig.client.append(f"raised {type(error).__name__}")


@scenario
async def two_channels_are_independent(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        await pause()
        return b"answer"

    await rig.serve(UnaryUnary=serve)
    one, two = rig.channel(), rig.channel()
    first = rig.method("UnaryUnary", one)(b"")
    second = rig.method("UnaryUnary", two)(b"")
    await asyncio.sleep(PAUSE_S / 3)
    await one.close()
    await rig.saw(first, "first")
    await rig.saw(second, "second")


@scenario
async def channel_states(rig: Rig) -> None:
    async def serve(request: bytes, context: Any) -> bytes:
        return b""

    await rig.serve(UnaryUnary=serve)
    channel = rig.channel()
    rig.client.append(channel.get_state().name)
    await channel.channel_ready()
    rig.client.append(channel.get_state().name)
    await rig.method("UnaryUnary", channel)(b"")
    await channel.close()
    rig.client.append(channel.get_state().name)
