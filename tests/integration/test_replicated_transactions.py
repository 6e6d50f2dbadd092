"""Transactions on two replicas over real gRPC and files: the index, the last stable offset, and the
epochs of markers after an election (I-152, I-153, I-159).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.errors import InvalidProducerEpoch
from support.aborted_scan import indexed, on_disk, scan
from support.open_transaction import end, write
from support.replica_nodes import decide, eventually, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

A, B, C = 7, 8, 9


async def test_a_follower_that_becomes_leader_knows_all_transactions(tmp_path: Path) -> None:
    async with run_node(tmp_path / "1", 1) as first, run_node(tmp_path / "2", 2) as second:
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), first, second)
        leader, follower = first.partition, second.partition
        write(leader, A)
        write(leader, B)
        end(leader, A)
        write(leader, C)
        end(leader, C, commit=True)
        copied = lambda: leader.high_watermark == leader.log.log_end_offset  # noqa: E731
        await eventually(copied, "all is committed")
        assert leader.last_stable_offset == 2
        assert on_disk(follower.log) == on_disk(leader.log)
        assert indexed(follower.log) == scan(follower.log) == [(A, 0, 4, 2)]

        await decide(state(2, epoch=1, isr=(1, 2), replicas=(1, 2)), first, second)
        leading = check_leader(follower, 1)
        committed = lambda: follower.high_watermark == follower.log.log_end_offset  # noqa: E731
        await eventually(committed, "its epoch is committed")
        assert leading.readable_end(Isolation.READ_COMMITTED) == 2
        with pytest.raises(InvalidProducerEpoch):
            end(follower, B, epoch=0)
        assert end(follower, A) is None, "the marker is there already (I-156)"
        end(follower, B)
        await eventually(committed, "the marker is committed")
        assert leading.readable_end(Isolation.READ_COMMITTED) == follower.log.log_end_offset
        await eventually(lambda: on_disk(leader.log) == on_disk(follower.log), "it is copied")
        assert indexed(leader.log) == [(A, 0, 4, 2), (B, 2, 8, 9)]
