"""What a producer has under way goes to the newer leader, whoever names it first."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline._core.cluster_view import ClusterView
from strandline._core.delivery_terms import Answer
from strandline._producer.sender import Sender
from strandline._producer.stream import InFlight
from strandline_proto.errors import NotLeaderOrFollower
from strandline_proto.v1 import metadata_pb2
from support.partition_queues import add, make

if TYPE_CHECKING:
    from strandline._core.partition_queue import PartitionQueue


def described(leader: int, leader_epoch: int) -> metadata_pb2.MetadataResponse:
    answer = metadata_pb2.MetadataResponse(cluster_id="c", metadata_offset=leader_epoch)
    for broker in (1, 2):
        answer.brokers.add(node_id=broker, host="h", port=9000 + broker)
    topic = answer.topics.add(name="orders", topic_id=b"i" * 16)
    topic.partitions.add(index=0, leader=leader, leader_epoch=leader_epoch)
    return answer


def sender_with(queue: PartitionQueue) -> Sender:
    """Broker 1 leads in epoch 5."""
    view = ClusterView()
    view.apply(described(1, 5))
    session = SimpleNamespace(
        runtime=SimpleNamespace(clock=SimpleNamespace(monotonic=lambda: 0.0), rng=random.Random(1)),
        connections=None,
        cluster=SimpleNamespace(view=view, watchers=[], request_refresh=lambda: None),
        tasks=None,
        on_broken=[],
    )
    sender = Sender(
        cast("Any", session), options=queue.options, request_timeout_ms=1000.0, buffer_memory=1
    )
    sender.queues[queue.topic_id, queue.partition] = queue
    for broker in (1, 2):
        sender._streams[broker] = cast("Any", SimpleNamespace(offer=lambda _: None))
    return sender


@pytest.mark.parametrize("is_told_by_refusal", [False, True])
async def test_a_newer_leader_is_sent_what_the_older_one_has_not_answered(
    is_told_by_refusal: bool,
) -> None:
    queue = make()
    first, second = add(queue), add(queue)
    sender = sender_with(queue)
    assert [sender.take(queue, 1), sender.take(queue, 1)] == [first, second]
    view = sender.cluster.view
    if is_told_by_refusal:  # the first shares a request with a partition that waits for its acks
        assert view.hint(queue.topic_id, 0, leader=2, leader_epoch=6)
        refusal = Answer(NotLeaderOrFollower.code, "", appended=False)
        sender.on_answer(InFlight(queue, second, second.attempt), refusal)
    sender._on_metadata(view.apply(described(2, 6)))
    assert sender.take(queue, 2) is first
    assert sender.take(queue, 2) is second
