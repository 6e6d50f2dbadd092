"""What a leadership holds to, and what ends with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.isr_proposal import HighWatermarkRaised
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import build_batch
from strandline_proto.errors import NotLeaderOrFollower
from strandline_proto.ids import Offset
from support.replica_nodes import decide, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome

BATCH = build_batch([(None, b"v")], timestamp_ms=1)


def append(partition: Partition) -> list[ProduceOutcome]:
    done: list[ProduceOutcome] = []
    check_leader(partition, None).appends.append(BATCH, acks=-1, on_done=done.append)
    return done


async def test_a_watermark_that_does_not_rise_is_not_carried_out(tmp_path: Path) -> None:
    """I-13: from the first of the effects on."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        leading = check_leader(node.partition, None)
        assert [len(append(node.partition)) for _ in range(2)] == [1, 1]
        assert node.partition.high_watermark == 2
        for to in (0, 1, 2):
            with pytest.raises(AssertionError):
                leading.carry_out([HighWatermarkRaised(Offset(to))])
        assert node.partition.high_watermark == 2
        with pytest.raises(AssertionError):
            leading.carry_out([HighWatermarkRaised(Offset(3))])  # the machine's is another


async def test_who_waits_for_a_leadership_is_told_of_its_end_and_not_kept_for_the_next(
    tmp_path: Path,
) -> None:
    """P-25."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), node)
        ended, done = check_leader(node.partition, None), append(node.partition)
        assert done == []
        await decide(state(1, epoch=1, isr=(1, 2), replicas=(1, 2)), node)
        (outcome,) = done
        assert isinstance(outcome.error, NotLeaderOrFollower)
        assert outcome.appended
        now = check_leader(node.partition, None)
        assert now is not ended
        assert (ended.appends.waiting(), now.appends.waiting()) == ([], [])
        with pytest.raises(AssertionError, match="is over"):
            ended.appends.append(BATCH, acks=-1, on_done=done.append)
        assert node.partition.log.log_end_offset == 1, "nothing of it was written (I-20)"
