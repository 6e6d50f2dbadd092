"""The controller's push stream: envelopes are applied and answered one at a time, in order."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_broker.rpc.cluster.push_codec import answer_to_wire, envelope_from_wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import Executor

    from strandline_broker.core.push_envelope import Envelope
    from strandline_broker.hosts.member.push import PushReceiver
    from strandline_broker.hosts.member.push_streams import IncomingPushStream
    from strandline_proto.v1 import push_pb2


LARGE_BYTES: Final = 50_000
"""Size of about 500 partitions, which take about 10 ms to decode. A larger envelope is decoded in a
thread.
"""


class PushRpc:
    def __init__(self, receiver: PushReceiver, thread: Executor) -> None:
        """`thread` is for what would keep the loop waiting."""
        self._receiver = receiver
        self._thread = thread

    async def LeaderAndIsr(
        self, requests: AsyncIterator[push_pb2.LeaderAndIsrRequest], context: Any
    ) -> None:
        # A handler that is cancelled in its very first write would leave the call without a status:
        # grpc.aio then sends the headers twice, and fails to.
        await context.send_initial_metadata(())
        stream = self._receiver.streams.open()
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(self._serve(stream, requests, context))
            replaced = group.create_task(stream.replaced.wait())
            await asyncio.wait((serving, replaced), return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            replaced.cancel()
        if stream.replaced.is_set():
            await context.abort(
                grpc.StatusCode.ABORTED, "this push stream has been given up for a newer one"
            )

    async def _serve(
        self,
        stream: IncomingPushStream,
        requests: AsyncIterator[push_pb2.LeaderAndIsrRequest],
        context: Any,
    ) -> None:
        async for request in requests:
            envelope = await self._decoded(request)
            with self._receiver.streams.answering(stream):
                answer = await self._receiver.apply(stream, envelope)
                if answer is None:
                    return
                await context.write(answer_to_wire(answer))

    async def _decoded(self, request: push_pb2.LeaderAndIsrRequest) -> Envelope:
        if request.ByteSize() <= LARGE_BYTES:
            return envelope_from_wire(request)
        decode = partial(envelope_from_wire, request)
        return await asyncio.get_running_loop().run_in_executor(self._thread, decode)
