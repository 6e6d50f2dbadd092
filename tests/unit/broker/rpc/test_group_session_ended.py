"""What becomes of what a member has asked for once its stream has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from support.group_broker import group_broker
from support.group_members import Member, served
from support.replica_nodes import eventually

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_commit_that_is_done_when_its_stream_has_ended_is_told_to_nobody(
    tmp_path: Path,
) -> None:
    """It once took the broker's process with it, where a beat came late in the same way."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1)
        member = Member(stub, "m1")
        await member.beat()
        await eventually(lambda: b.partition.log.log_end_offset > 0, "it has joined")
        b.replicate()
        await member.hears()
        end = b.partition.log.log_end_offset
        await member.commit(5)
        await eventually(lambda: b.partition.log.log_end_offset > end, "its commit is in the log")
        member.call.cancel()
        await eventually(lambda: len(b.host.sessions) == 0, "its stream has ended")
        b.replicate()
        await b.turns()
    assert complaints == []
