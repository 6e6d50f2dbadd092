"""The session of a scripted member of a classic group, as the member counts it."""

from __future__ import annotations

import asyncio
from typing import Any

from strandline_proof.sim.kafka.member import SESSION_MS, ClassicMember


class Coordinator:
    """Answers each call at once."""

    async def call(self, name: str, version: int, **fields: object) -> object:
        return name, version, fields


async def test_a_join_that_waits_for_a_session_of_another_costs_the_member_none() -> None:
    """Otherwise two members expel each other in turn: each leaves an id behind, whose session the
    other's join waits for.
    """
    member: Any = object.__new__(ClassicMember)
    member._group_id, member._generation, member._member_id = "g", 1, "m"
    member._instance = member._verdict = None
    member._beaten_s = asyncio.get_running_loop().time() - SESSION_MS / 1000
    await member._synced(Coordinator(), {})
    member._check()
