"""The first group call of a broker loads the modules of all of them, off the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

from strandline_broker.rpc.groups.calls import GroupCalls
from strandline_runtime.real import real_runtime

if TYPE_CHECKING:
    import pytest


async def test_the_first_calls_load_the_modules_once_on_a_thread_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded_by: list[threading.Thread] = []

    async def answered(request: str, context: object) -> str:
        return f"{request} answered"

    def load(self: GroupCalls) -> dict[str, Any]:
        loaded_by.append(threading.current_thread())
        return {"FindCoordinator": answered, "OffsetFetch": answered}

    monkeypatch.setattr(GroupCalls, "_load", load)
    nothing = cast("Any", None)
    calls = GroupCalls(real_runtime("broker-1"), nothing, nothing, "PLAINTEXT")
    answers = await asyncio.gather(
        calls.FindCoordinator("first", None), calls.OffsetFetch("second", None)
    )
    assert list(answers) == ["first answered", "second answered"]
    assert await calls.OffsetFetch("third", None) == "third answered"
    assert len(loaded_by) == 1
    assert loaded_by[0] is not threading.current_thread()
