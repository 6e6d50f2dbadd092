"""Questions to leaders: who is asked, what fails, and when they are asked again."""

from __future__ import annotations

import asyncio
import random
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline._core.cluster_view import ClusterView
from strandline._net.offsets import EpochEnd, Offsets
from strandline.errors import (
    BrokerUnreachable,
    InvalidRequest,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OperationTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.errors import NONE
from strandline_proto.v1 import fetch_pb2, metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

ID, GONE = b"a" * 16, b"b" * 16
LEADERS = (1, 1, 1, 2, -1)
"""Of the partitions 0 to 4, in leader epoch 6."""


class Peers:
    """A session whose brokers answer by script: broker 2 never does."""

    def __init__(self, *codes: Sequence[int | None]) -> None:
        """`codes`: of each call on broker 1, by partition asked about; None leaves it out."""
        self.asked: list[tuple[str, list[int]]] = []
        self.refreshes = 0
        self._codes = list(codes)
        self.view = ClusterView()
        described = metadata_pb2.MetadataResponse(cluster_id="c", metadata_offset=5)
        for broker in (1, 2):
            described.brokers.add(node_id=broker, host="h", port=9000 + broker)
        topic = described.topics.add(name="t", topic_id=ID)
        for index, leader in enumerate(LEADERS):
            topic.partitions.add(index=index, leader=leader, leader_epoch=6)
        self.view.apply(described)
        clock = SimpleNamespace(monotonic=time.monotonic)
        runtime = SimpleNamespace(clock=clock, rng=random.Random(1))
        session = SimpleNamespace(runtime=runtime, connections=self, cluster=self)
        self.offsets = Offsets(cast("Any", session))

    def address_of(self, broker_id: int) -> str | None:
        return self.view.brokers[broker_id].address

    def request_refresh(self) -> None:
        self.refreshes += 1

    async def call(self, address: str, method: Any, request: Any, **_: Any) -> Any:
        asked = [p.partition for topic in request.topics for p in topic.partitions]
        self.asked.append((address, asked))
        if address == "h:9002":
            raise BrokerUnreachable("h:9002 is away")
        lists = isinstance(request, fetch_pb2.ListOffsetsRequest)
        kind = fetch_pb2.ListOffsetsResponse if lists else fetch_pb2.OffsetsForLeaderEpochResponse
        answer: Any = kind()
        topic = answer.topics.add(topic_id=ID)
        for partition, code in zip(asked, self._codes.pop(0), strict=True):
            if code is not None:
                result = topic.partitions.add(partition=partition, error_code=code)
                result.leader_epoch = 4
                setattr(result, "offset" if lists else "end_offset", 70 + partition)
        return answer


def test_each_partition_has_an_answer_or_a_reason_why_not() -> None:
    peers = Peers([NONE, NotLeaderOrFollower.code, None])
    wanted = {(ID, index): 3 for index in range(5)} | {(GONE, 0): 3}
    answers = asyncio.run(peers.offsets.epoch_ends(wanted, 1.0))
    assert answers.found == {(ID, 0): EpochEnd(asked_in=6, epoch=4, end_offset=70)}
    assert {key: type(error) for key, error in answers.failures.items()} == {
        (ID, 1): NotLeaderOrFollower,
        (ID, 2): LeaderNotAvailable,
        (ID, 3): BrokerUnreachable,
        (ID, 4): LeaderNotAvailable,
        (GONE, 0): UnknownTopicId,
    }
    assert peers.asked == [("h:9001", [0, 1, 2]), ("h:9002", [3])]
    assert "t:4" in str(answers.failures[ID, 4])


def test_only_what_is_missing_is_asked_again() -> None:
    peers = Peers([NONE, None], [NONE])
    found = asyncio.run(peers.offsets.listed({(ID, 0): -1, (ID, 1): -1}, 5.0))
    assert {key: listed.offset for key, listed in found.items()} == {(ID, 0): 70, (ID, 1): 71}
    assert peers.asked == [("h:9001", [0, 1]), ("h:9001", [1])]
    assert peers.refreshes == 1


def test_what_asking_again_does_not_mend_is_raised_at_once() -> None:
    peers = Peers([NONE, InvalidRequest.code])
    with pytest.raises(InvalidRequest):
        asyncio.run(peers.offsets.listed({(ID, 0): -1, (ID, 1): -1}, 5.0))


def test_the_deadline_names_what_is_late_and_why() -> None:
    peers = Peers([NONE])
    with pytest.raises(OperationTimedOut, match=r"offsets of t:3 .* 0 ms: .*9002 is away"):
        asyncio.run(peers.offsets.listed({(ID, 0): -1, (ID, 3): -1}, 0.0))


def test_a_topic_that_goes_meanwhile_is_not_waited_for() -> None:
    with pytest.raises(UnknownTopicOrPartition):
        asyncio.run(Peers().offsets.listed({(GONE, 0): -1}, 5.0))
