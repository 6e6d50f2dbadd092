"""Other calls have their turn while a request of many elements is served.

Turns of the loop are counted, not seconds: a busy machine changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.config.loading import load_broker_config
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.hosts.common.request_times import RequestTimes
from strandline_broker.hosts.replica.record_check import RecordChecks
from strandline_broker.hosts.serving.configs import ConfigsService
from strandline_broker.hosts.serving.delete_records import DeleteRecordsService
from strandline_broker.hosts.serving.groups import GroupsService
from strandline_broker.hosts.serving.offsets import OffsetsService
from strandline_broker.hosts.serving.produce import ProduceService
from strandline_broker.hosts.serving.turns import EVERY, in_turns
from strandline_broker.rpc.cluster.configs import ConfigsRpc
from strandline_broker.rpc.cluster.metadata import MetadataRpc
from strandline_broker.rpc.cluster.replicas_info import ReplicasInfoRpc
from strandline_broker.rpc.groups.admin import GroupAdminRpc
from strandline_broker.rpc.groups.find_coordinator import FindCoordinatorRpc
from strandline_broker.rpc.groups.offset_commits import OffsetCommitsRpc
from strandline_broker.rpc.records.delete_records import DeleteRecordsRpc
from strandline_broker.rpc.records.offsets import OffsetsRpc
from strandline_broker.rpc.records.produce import ProduceRpc
from strandline_proto import hot_decode, hot_messages
from strandline_proto.batch import build_batch
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.v1 import (
    committed_offsets_pb2,
    delete_records_pb2,
    fetch_pb2,
    groups_pb2,
    metadata_pb2,
)
from support.envelopes import applied, envelope, partition, topic
from support.group_broker import group_broker
from support.loop_turns import with_turns
from support.replica_nodes import TOPIC_ID, decide, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

COUNT = 10_000
LEAST = COUNT // EVERY


async def test_elements_are_taken_in_turns() -> None:
    async def take() -> list[int]:
        return [number async for number in in_turns(range(2 * EVERY + 1))]

    taken, turns = await with_turns(take())
    assert taken == list(range(2 * EVERY + 1))
    assert turns == 2 + 1


async def test_coordinators_are_found_in_turns() -> None:
    rpc = FindCoordinatorRpc(MetadataCache(cluster_id="c"), "PLAINTEXT")
    request = groups_pb2.FindCoordinatorRequest(coordinator_keys=map(str, range(COUNT)))
    answer, turns = await with_turns(rpc.FindCoordinator(request, None))
    assert [each.key for each in answer.coordinators] == list(request.coordinator_keys)
    assert {each.error_code for each in answer.coordinators} == {CoordinatorNotAvailable.code}
    assert turns > LEAST


def cache(topics: int = 3, partitions: int = 1) -> MetadataCache:
    known = MetadataCache(cluster_id="cluster")
    made = (topic(f"t{n}", n, *map(partition, range(partitions))) for n in range(topics))
    applied(known, envelope(1, full=True, topics=tuple(made)))
    return known


async def test_topics_are_described_in_turns_and_once_each() -> None:
    rpc = MetadataRpc(cache(100, 100), "PLAINTEXT")
    answer, turns = await with_turns(rpc.Metadata(metadata_pb2.MetadataRequest(), None))
    assert [len(each.partitions) for each in answer.topics] == [100] * 100
    assert turns > LEAST
    names = [f"n{n}" for n in range(COUNT)]
    request = metadata_pb2.MetadataRequest(only_named=True)
    request.topics.extend(metadata_pb2.TopicRef(name=name) for name in names)
    answer, turns = await with_turns(rpc.Metadata(request, None))
    assert [each.name for each in answer.topics] == names
    assert {each.error_code for each in answer.topics} == {UnknownTopicOrPartition.code}
    assert turns > LEAST
    request = metadata_pb2.MetadataRequest(only_named=True)
    request.topics.extend(metadata_pb2.TopicRef(name="t0") for _ in range(COUNT))
    assert [each.name for each in (await rpc.Metadata(request, None)).topics] == ["t0"]


async def test_configurations_are_described_in_turns() -> None:
    given = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:1",
        "log.dirs": "/d",
        "controller.quorum.bootstrap.servers": "127.0.0.1:2",
    }
    rpc = ConfigsRpc(ConfigsService(load_broker_config(None, given, {}), cache()))
    request = metadata_pb2.DescribeConfigsRequest()
    for _ in range(500):
        request.resources.add(type=2, name="t0")
    answer, turns = await with_turns(rpc.DescribeConfigs(request, None))
    keys = sum(len(each.configs) for each in answer.results)
    assert keys >= 500 * 20
    assert turns > keys // (2 * EVERY)


async def test_offsets_are_listed_in_turns(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1), node)
        rpc = OffsetsRpc(OffsetsService(node.replicas), node.metadata)
        request = fetch_pb2.ListOffsetsRequest()
        asked = request.topics.add(topic_id=TOPIC_ID)
        for _ in range(COUNT):
            asked.partitions.add(partition=0, timestamp=-1, current_leader_epoch=0)
        answer, turns = await with_turns(rpc.ListOffsets(request, None))
        assert [each.error_code for each in answer.topics[0].partitions] == [0] * COUNT
        assert turns > LEAST
        ends = fetch_pb2.OffsetsForLeaderEpochRequest()
        for _ in range(COUNT):
            ends.topics.add(topic_id=TOPIC_ID).partitions.add(partition=0)
        found, turns = await with_turns(rpc.OffsetsForLeaderEpoch(ends, None))
        assert len(found.topics) == COUNT
        assert turns > 2 * LEAST


async def test_records_are_deleted_in_turns(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        request = delete_records_pb2.DeleteRecordsRequest(timeout_ms=1000)
        asked = request.topics.add(topic_id=TOPIC_ID)
        for number in range(COUNT):
            asked.partitions.add(partition=number)
        rpc = DeleteRecordsRpc(DeleteRecordsService(node.replicas), node.metadata)
        answer, turns = await with_turns(rpc.DeleteRecords(request, None))
        codes = {each.error_code for each in answer.topics[0].partitions}
        assert codes == {UnknownTopicId.code}
        assert turns > LEAST


async def test_replicas_are_described_in_turns(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1), node)
        for number in range(1, COUNT):  # the one there is, many times
            node.replicas.partitions[TOPIC_ID, number] = node.partition
        try:
            rpc = ReplicasInfoRpc(node.runtime.clock, node.replicas, node.metadata)
            request = metadata_pb2.DescribeReplicasRequest()
            answer, turns = await with_turns(rpc.DescribeReplicas(request, None))
        finally:
            for number in range(1, COUNT):
                del node.replicas.partitions[TOPIC_ID, number]
        assert len(answer.replicas) == COUNT
        assert turns > 2 * LEAST


class Stream:
    """Takes the answers of a Produce stream."""

    def __init__(self) -> None:
        self.answers: list[hot_messages.ProduceResponse] = []

    async def send_initial_metadata(self, metadata: object) -> None:
        pass

    async def write(self, answer: bytes) -> None:
        self.answers.append(hot_decode.produce_response(answer))


async def test_batches_of_one_request_are_appended_in_turns(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1), node)
        batch = build_batch([(None, b"v")], timestamp_ms=1)
        data = [hot_messages.ProduceData(TOPIC_ID, 0, batch, 0) for _ in range(1000)]

        async def requests() -> AsyncIterator[hot_messages.ProduceRequest]:
            yield hot_messages.ProduceRequest(7, 1, 30_000, data)

        checks = RecordChecks(
            node.runtime.clock, node.replicas.partitions, node.runtime.serial_executor("t")
        )
        rpc, stream = (
            ProduceRpc(
                ProduceService(node.replicas, node.metadata, checks),
                node.metadata,
                "PLAINTEXT",
                RequestTimes(node.runtime.clock),
            ),
            Stream(),
        )
        _, turns = await with_turns(rpc.Produce(requests(), stream))
        (answer,) = stream.answers
        assert [each.base_offset for each in answer.partitions] == list(range(1000))
        assert turns > 1000 // 100


async def test_groups_are_asked_in_turns(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.lead(1)
        broker.replicate()
        fetch = committed_offsets_pb2.OffsetFetchRequest()
        names = [f"g{number}" for number in range(2000)]
        for name in names:
            fetch.groups.add(group_id=name)
        commits = OffsetCommitsRpc(GroupsService(broker.shards))
        answer, turns = await with_turns(commits.OffsetFetch(fetch, None))
        assert [(each.group_id, each.error_code) for each in answer.groups] == [
            (name, 0) for name in names
        ]
        assert turns > 2000 // 20
        admin: Any = GroupAdminRpc(GroupsService(broker.shards), broker.metadata)
        for call, kind in (
            (admin.ConsumerGroupDescribe, groups_pb2.ConsumerGroupDescribeRequest),
            (admin.DeleteGroups, groups_pb2.DeleteGroupsRequest),
        ):
            _, turns = await with_turns(call(kind(group_ids=names), None))
            assert turns > 2000 // 100


async def test_what_many_groups_have_committed_is_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same group may be named again and again, which costs the sender some bytes each time."""
    async with group_broker(tmp_path) as broker:
        await broker.lead(1)
        done = broker.commit(7)
        broker.replicate()
        await done
        monkeypatch.setattr("strandline_broker.hosts.serving.groups.ANSWERED_MAX", 3)
        request = committed_offsets_pb2.OffsetFetchRequest()
        for _ in range(5):
            request.groups.add(group_id="g")
        answer = await OffsetCommitsRpc(GroupsService(broker.shards)).OffsetFetch(request, None)
        assert [each.error_code for each in answer.groups] == [0, 0, 0, 42, 42]
        assert "ask for fewer groups at a time" in answer.groups[4].error_message
