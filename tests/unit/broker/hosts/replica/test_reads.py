"""What a leader says of positions that its log does not have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.hosts.common.fetch_messages import Position
from strandline_broker.hosts.replica.reads import read_for_consumer
from strandline_proto.errors import NotLeaderOrFollower, OffsetOutOfRange, WireError
from support.replica_nodes import decide, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

read = partial(read_for_consumer, max_bytes=1 << 20, isolation=Isolation.READ_UNCOMMITTED)


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 9), (3, 0)])
async def test_who_may_have_been_deposed_calls_no_position_out_of_range(
    tmp_path: Path, epoch: int, offset: int
) -> None:
    """I-106: a committed offset without an epoch may be past the end of a former leader's log."""
    position = Position(0, offset, epoch, 0, 1 << 20)
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), node)
        with pytest.raises(OffsetOutOfRange):
            read(node.partition, position, is_sure=lambda: True)
        with pytest.raises(WireError, match="another broker may lead by now") as raised:
            read(node.partition, position, is_sure=lambda: False)
        assert isinstance(raised.value, NotLeaderOrFollower)
