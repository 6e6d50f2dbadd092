"""The view of the cluster: what a call is told of a topic that it waits for."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast

from strandline._net.cluster import UNKNOWN_TOPIC_S, Cluster
from strandline.errors import BrokerUnreachable, UnknownTopicOrPartition
from strandline_proof.sim.loop.loop import SimLoop
from strandline_proto import errors as wire
from strandline_proto.v1 import metadata_pb2


class Broker:
    """The only one, with one topic: unreachable up to a time."""

    def __init__(self, loop: SimLoop, up_at_s: float) -> None:
        self._loop = loop
        self._up_at_s = up_at_s

    async def call(self, *args: Any, **options: Any) -> metadata_pb2.MetadataResponse:
        if self._loop.time() < self._up_at_s:
            raise BrokerUnreachable("as scripted")
        request = cast("metadata_pb2.MetadataRequest", args[2])
        answer = metadata_pb2.MetadataResponse(cluster_id="c", metadata_offset=5)
        answer.brokers.add(node_id=1, host="h", port=9001)
        for wanted in request.topics:
            topic = answer.topics.add(name=wanted.name)
            if wanted.name == "there":
                topic.topic_id = b"i" * 16
                topic.partitions.add(index=0, leader=1, leader_epoch=1)
            else:
                topic.error_code = wire.UnknownTopicOrPartition.code
        return answer


def asked(up_at_s: float, *waits: tuple[str, float]) -> list[Any]:
    """What calls about a topic are told that begin one after the other, each with its patience."""
    loop = SimLoop()
    found: list[Any] = []

    async def main() -> None:
        clock = SimpleNamespace(monotonic=loop.time)
        runtime = SimpleNamespace(clock=clock, rng=random.Random(1))
        broker: Any = Broker(loop, up_at_s)
        cluster = Cluster(cast("Any", runtime), broker, ("h:9001",))
        refreshing = asyncio.get_running_loop().create_task(cluster.run())
        calls = [cluster.topic(name, patience_s) for name, patience_s in waits]
        found.extend(await asyncio.gather(*calls, return_exceptions=True))
        refreshing.cancel()

    loop.run(main())
    return found


def test_nobody_is_told_that_a_topic_is_not_there_by_an_answer_that_was_not_asked_for_it() -> None:
    up_at_s = UNKNOWN_TOPIC_S + 2
    gave_up, topic = asked(up_at_s, ("there", UNKNOWN_TOPIC_S + 1), ("there", 30.0))
    assert isinstance(gave_up, Exception)
    assert not isinstance(topic, Exception), topic
    assert list(topic.partitions) == [0]


def test_a_topic_that_no_broker_knows_for_a_while_is_not_there() -> None:
    told = asked(0.0, ("not there", 30.0))
    assert isinstance(told[0], UnknownTopicOrPartition), told
