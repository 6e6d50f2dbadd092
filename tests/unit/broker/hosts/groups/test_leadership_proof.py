"""Refusals that end a client, from a coordinator that may be taken for dead (I-124)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_proto.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from support.classic_broker import classic_broker, code_of
from support.group_broker import answered, group_broker

if TYPE_CHECKING:
    from pathlib import Path

    from support.classic_broker import ClassicBroker


async def codes_of(classic: ClassicBroker, member_id: str) -> list[int]:
    """The errors of each call of a member with instance id i."""
    return [
        await code_of(classic.join(member_id, instance_id="i")),
        await code_of(classic.sync(member_id, 1, instance_id="i")),
        await classic.heartbeat(member_id, 1, "i"),
    ]


async def test_a_static_member_is_fenced_by_a_coordinator_in_office_alone(tmp_path: Path) -> None:
    """The member may have joined again at another coordinator, which gave it the id."""
    async with classic_broker(tmp_path) as classic:
        host = classic.broker.host
        await classic.stable(instance_id="i")
        end = classic.broker.partition.log.log_end_offset
        host.context.is_sure = lambda: False
        assert await codes_of(classic, "i-given-elsewhere") == [CoordinatorNotAvailable.code] * 3
        with pytest.raises(CoordinatorNotAvailable, match=r"not heard .* here, instance 'i' of"):
            await classic.join("i-given-elsewhere", instance_id="i")
        assert await classic.heartbeat("a", 1) == UnknownMemberId.code, "that one joins again"
        host.context.is_sure = lambda: True
        assert await codes_of(classic, "i-given-elsewhere") == [FencedInstanceId.code] * 3
        assert classic.broker.partition.log.log_end_offset == end


async def test_an_instance_is_taken_by_the_word_of_a_coordinator_in_office_alone(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.serves()
        await answered(b.beat("m1", instance_id="i"))
        b.host.context.is_sure = lambda: False
        for epoch in (0, 1):
            with pytest.raises(CoordinatorNotAvailable, match="another may coordinate"):
                await answered(b.beat("m2", epoch=epoch, instance_id="i"))
        b.host.context.is_sure = lambda: True
        with pytest.raises(UnreleasedInstanceId):
            await answered(b.beat("m2", instance_id="i"))
        with pytest.raises(FencedInstanceId):
            await answered(b.beat("m2", epoch=1, instance_id="i"))
