"""A cancellation that meets a failing task group is delivered all the same."""

import asyncio

import pytest

from strandline_runtime.cancellation import deliver_cancellation


class _Broken(Exception):
    pass


class _Streams:
    """Opens a stream anew whenever it breaks, until it is cancelled."""

    def __init__(self) -> None:
        self.opened = asyncio.Semaphore(0)
        self.breaks = asyncio.Event()

    async def serve(self) -> None:
        while True:
            self.opened.release()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._break())
                    await asyncio.get_running_loop().create_future()
            except* _Broken:
                pass
            deliver_cancellation()

    async def _break(self) -> None:
        await self.breaks.wait()
        self.breaks.clear()
        raise _Broken


async def test_an_owner_cancelled_while_its_group_fails_ends() -> None:
    streams = _Streams()
    owner = asyncio.get_running_loop().create_task(streams.serve())
    await streams.opened.acquire()
    await asyncio.sleep(0)
    streams.breaks.set()
    # Now the child fails, and its owner is cancelled before it hears of the failure.
    await asyncio.sleep(0)
    owner.cancel()
    ended, _ = await asyncio.wait([owner], timeout=60)
    if not ended:
        owner.cancel()
    assert ended
    assert owner.cancelled()


async def test_a_task_that_nobody_cancels_goes_on() -> None:
    deliver_cancellation()
    streams = _Streams()
    owner = asyncio.get_running_loop().create_task(streams.serve())
    async with asyncio.timeout(60):
        for _ in range(3):
            await streams.opened.acquire()
            streams.breaks.set()
        await streams.opened.acquire()
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
