"""Heartbeats by stream and by single calls are the same commands (I-176): two groups that live
through the same history, one by each, come to the same state and the same log.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from support.group_broker import ORDERS, ORDERS_ID, group_broker
from support.group_members import Caller, Streamer, served

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from support.group_broker import GroupBroker

STEPS = 14
ROUNDS_MAX = 20
"""Of heartbeats by everybody, until a group has come to rest."""


class Side:
    """One of the two groups."""

    def __init__(self, broker: GroupBroker, stub: BrokerServiceAsyncStub, kind: Any) -> None:
        self.broker = broker
        self._stub = stub
        self._kind = kind
        self._members: dict[str, Any] = {}

    async def join(self, member_id: str, instance_id: str | None) -> int:
        member = self._members[member_id] = self._kind(self._stub, member_id)
        fields = {} if instance_id is None else {"instance_id": instance_id}
        code: int = await member.speak(**fields)
        if code != 0:
            del self._members[member_id]
        return code

    async def leave(self, member_id: str, epoch: int, instance_id: str | None) -> int:
        member = self._members.pop(member_id)
        fields = {} if instance_id is None else {"instance_id": instance_id}
        code: int = await member.speak(epoch, **fields)
        return code

    async def rest(self) -> None:
        """Everybody speaks until nothing changes any more."""
        quiet = 0
        for _ in range(ROUNDS_MAX):
            end = self.broker.partition.log.log_end_offset
            for _, member in sorted(self._members.items()):
                assert await member.speak() == 0
            # On a stream the first answer may bring what only the next heartbeat is about.
            quiet = quiet + 1 if self.broker.partition.log.log_end_offset == end else 0
            if quiet == 2:
                return
        raise AssertionError("no rest")

    def state(self) -> object:
        group = self.broker.host.groups.table.consumer.get("g")
        if group is None:
            return None
        members = {
            member_id: (
                group.current(member_id).epoch,
                group.current(member_id).state,
                sorted(group.current(member_id).held()),
                group.target(member_id),
            )
            for member_id in group.members
        }
        return group.epoch, group.assignment_epoch, members


@pytest.mark.parametrize("seed", range(4))
async def test_a_history_ends_the_same_by_stream_and_by_calls(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with (
        group_broker(tmp_path / "unary") as b1,
        group_broker(tmp_path / "stream") as b2,
        served(b1) as stub1,
        served(b2) as stub2,
    ):
        await b1.lead(1, isr=(1,))
        await b2.lead(1, isr=(1,))
        sides = (Side(b1, stub1, Caller), Side(b2, stub2, Streamer))
        there: dict[str, str | None] = {}
        for number in range(STEPS):
            if there and rng.random() < 0.4:
                name = rng.choice(sorted(there))
                instance_id = there.pop(name)
                stays = instance_id is not None and rng.random() < 0.5
                codes = [await s.leave(name, -2 if stays else -1, instance_id) for s in sides]
            else:
                instance_id = rng.choice([None, None, "i1", "i2"])
                name = f"m{number}"
                codes = [await s.join(name, instance_id) for s in sides]
                if codes[0] == 0:
                    there[name] = instance_id
            assert codes[0] == codes[1], (number, name)
            for side in sides:
                await side.rest()
            assert sides[0].state() == sides[1].state(), (number, name)


async def test_one_member_writes_the_same_records_by_stream_and_by_calls(tmp_path: Path) -> None:
    logs = []
    for kind in (Caller, Streamer):
        async with group_broker(tmp_path / kind.__name__) as b, served(b) as stub:
            await b.lead(1, isr=(1,))
            side = Side(b, stub, kind)
            await side.join("m1", None)
            await side.rest()
            await b.set_topics({ORDERS_ID: (ORDERS, 6)})
            await side.rest()
            await side.leave("m1", -1, None)
            logs.append([[(key, _timeless(value)) for key, value in b_] for b_ in b.batches()])
    assert logs[0] == logs[1]
    assert len(logs[0]) > 2


def _timeless(value: object) -> object:
    """But for when a target was made."""
    return getattr(value, "assignment_epoch", value)
