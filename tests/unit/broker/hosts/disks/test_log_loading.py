"""Logs are opened on threads, which nobody leaves behind."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.disks.log_loading import Loaded, LogLoader
from strandline_runtime.real import real_runtime
from support.scripted_controller import WAIT_S

if TYPE_CHECKING:
    import pytest


class Directory:
    def partitions(self) -> list[str]:
        return ["a-0", "a-1", "a-2"]


async def test_a_load_that_is_given_up_ends_with_the_log_at_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that is stopped lets its directory go then, and another process may take it: what
    recovery cuts and writes late would strike what that one has (P-71).
    """
    begun, go_on, opened = threading.Event(), threading.Event(), list[str]()

    def opening(_: LogLoader, directory: Any, found: Any) -> Loaded:
        begun.set()
        go_on.wait(WAIT_S)
        opened.append(found)
        return Loaded(directory, found)

    monkeypatch.setattr(LogLoader, "_open", opening)
    loader = LogLoader.__new__(LogLoader)
    loader._runtime, loader._threads = real_runtime("broker-1"), 1
    loader._loaded, loader._total, loader._bytes = [], 0, 0
    directory: Any = Directory()
    loading = asyncio.create_task(loader.load([directory]))
    await asyncio.to_thread(begun.wait, WAIT_S)
    loading.cancel()
    asyncio.get_running_loop().call_later(0.2, go_on.set)
    await asyncio.wait([loading])
    assert loading.cancelled()
    assert opened == ["a-0"]
