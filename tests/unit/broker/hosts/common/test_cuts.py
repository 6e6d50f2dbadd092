"""What is noted of a truncation: from where to where, why, and whether records were committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.common.cuts import Cut, CutReason, Cuts
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import build_batch
from support.replica_nodes import Node, decide, run_node, state

if TYPE_CHECKING:
    from pathlib import Path


def append(node: Node, count: int) -> None:
    for _ in range(count):
        check_leader(node.partition, None).appends.append(
            build_batch([(None, b"v")], timestamp_ms=1), acks=1, on_done=lambda _: None
        )


def cuts_of(node: Node) -> list[Cut]:
    return [event.what for event in node.replicas.events.kept]


async def test_a_follower_that_cuts_at_its_high_watermark_notes_it(tmp_path: Path) -> None:
    settings = {"replica_truncation": "high-watermark", "development_unsafe": "true"}
    async with run_node(tmp_path, 1, **settings) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        append(node, 2)
        await decide(state(1, epoch=3, isr=(1, 2)), node)
        append(node, 1)
        await decide(state(2, epoch=5, isr=(1, 2)), node)
        (cut,) = cuts_of(node)
        assert (cut.start, cut.to, cut.high_watermark) == (3, 0, 0)
        assert (cut.reason, cut.leader_epoch) == (CutReason.HIGH_WATERMARK, 5)
        assert cut.acknowledged is None, "the leader may hold what was cut"
        assert cut.dropped == ((0, 0), (3, 2))


@pytest.mark.parametrize(
    ("to", "is_sound", "acknowledged"), [(1, True, True), (2, True, False), (2, False, None)]
)
async def test_records_below_the_high_watermark_were_acknowledged(
    tmp_path: Path, to: int, is_sound: bool, acknowledged: bool | None
) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        append(node, 3)
        partition = node.partition
        partition.high_watermark = 2
        cuts = Cuts(node.replicas.events)
        async with partition.gate:
            for end in (to, 9):  # the second one drops nothing
                with cuts.noting(
                    partition.log, 2, CutReason.DIVERGED, leader_epoch=7, is_sound=is_sound
                ):
                    await partition.truncate(end)
        assert [(c.to, c.acknowledged) for c in cuts_of(node)] == [(to, acknowledged)]


async def test_a_log_that_is_restarted_has_dropped_everything(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        append(node, 3)
        async with node.partition.gate:
            with Cuts(node.replicas.events).noting(
                node.partition.log, 0, CutReason.BEFORE_LEADER_START, leader_epoch=7, is_sound=True
            ):
                await node.partition.restart_at(10)
        (cut,) = cuts_of(node)
        assert (cut.start, cut.to, cut.dropped) == (3, 10, ((0, 0),))
