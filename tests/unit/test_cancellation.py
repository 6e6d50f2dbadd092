"""A cancellation that meets a failing task group is delivered all the same."""

import asyncio

import pytest

from strandline_runtime.cancellation import deliver_cancellation


class _Broken(Exception):
    pass


async def _serve_for_ever(about_to_break: asyncio.Event, calls: list[str]) -> None:
    """A stream that is opened anew whenever it breaks."""
    while True:
        calls.append("opened")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_break_when(about_to_break))
        except* _Broken:
            pass
        deliver_cancellation()


async def _break_when(event: asyncio.Event) -> None:
    await event.wait()
    event.clear()
    raise _Broken


async def test_an_owner_cancelled_while_its_group_fails_ends() -> None:
    about_to_break, calls = asyncio.Event(), list[str]()
    owner = asyncio.get_running_loop().create_task(_serve_for_ever(about_to_break, calls))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    about_to_break.set()
    await asyncio.sleep(0)
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
    assert calls == ["opened"]


async def test_a_task_that_nobody_cancels_goes_on() -> None:
    deliver_cancellation()
    about_to_break, calls = asyncio.Event(), list[str]()
    owner = asyncio.get_running_loop().create_task(_serve_for_ever(about_to_break, calls))
    for _ in range(3):
        await asyncio.sleep(0)
    about_to_break.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert calls == ["opened", "opened"]
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
