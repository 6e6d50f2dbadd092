"""DescribeLogDirs: sizes and lags of replicas by directory, and directories out of service."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.log_dirs import LogDirsService
from strandline_broker.kafka.cluster.log_dirs import LogDirsCalls
from strandline_broker.rpc.cluster.log_dirs import LogDirsRpc
from strandline_proto.batch import build_batch
from strandline_proto.v1.log_dirs_pb2 import DescribeLogDirsRequest
from strandline_runtime.real import RealFileSystem
from support.kafka_answers import ask, kind
from support.replica_nodes import decide, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

    from support.replica_nodes import Node


class MeasuredDisk(RealFileSystem):
    is_mounted = True

    def free_space(self, path: str) -> int:
        if not self.is_mounted:
            raise OSError("not mounted")
        return 700

    def total_space(self, path: str) -> int:
        return 1000


async def two_partitions(node: Node) -> None:
    for index in (0, 1):
        decided = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1)
        await decide(replace(decided, partition=index, is_new=True), node)
    first, _ = (p for _, p in sorted(node.replicas.partitions.items()))
    batch = build_batch([(None, b"value")], timestamp_ms=1)
    check_leader(first, None).appends.append(batch, acks=1, on_done=lambda _: None)


async def described(node: Node, fs: Any, version: int, topics: Any = None) -> Any:
    part = LogDirsCalls(LogDirsService(fs, node.replicas))
    answer = await ask(part, "DescribeLogDirs", version, topics=topics)
    if version >= 3:
        assert answer.error_code == 0
    return answer.results


def wanted(**topics: list[int]) -> list[Any]:
    made = kind("DescribeLogDirs", "DescribableLogDirTopic")
    return [made(topic=name, partitions=indices) for name, indices in topics.items()]


@pytest.mark.parametrize("version", range(1, 5))
async def test_directories_are_described_in_each_version(tmp_path: Path, version: int) -> None:
    fs = MeasuredDisk()
    async with run_node(tmp_path, 1, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b") as node:
        await two_partitions(node)
        results = await described(node, fs, version)
        assert [each.log_dir for each in results] == [f"{tmp_path}/a", f"{tmp_path}/b"]
        found = {
            p.partition_index: (p.partition_size, p.offset_lag, p.is_future_key)
            for each in results
            for t in each.topics
            for p in t.partitions
        }
        [log] = [p.log for key, p in node.replicas.partitions.items() if key[1] == 0]
        assert found == {0: (log.size_bytes, 0, False), 1: (0, 0, False)}
        assert log.size_bytes > 0
        assert {t.name for each in results for t in each.topics} == {log.topic}
        if version >= 4:
            assert [(r.total_bytes, r.usable_bytes) for r in results] == [(1000, 700)] * 2


async def test_our_own_call_describes_the_same(tmp_path: Path) -> None:
    fs = MeasuredDisk()
    async with run_node(tmp_path, 1, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b") as node:
        await two_partitions(node)
        rpc = LogDirsRpc(LogDirsService(fs, node.replicas))
        answer = await rpc.DescribeLogDirs(DescribeLogDirsRequest(), None)
        assert answer.broker_id == 1
        spaces = [(each.path, each.total_bytes, each.usable_bytes) for each in answer.log_dirs]
        assert spaces == [(f"{tmp_path}/a", 1000, 700), (f"{tmp_path}/b", 1000, 700)]
        [log] = [p.log for key, p in node.replicas.partitions.items() if key[1] == 0]
        found = {
            r.partition: (r.topic, r.size_bytes, r.offset_lag)
            for each in answer.log_dirs
            for r in each.replicas
        }
        assert found == {0: (log.topic, log.size_bytes, 0), 1: (log.topic, 0, 0)}
        other = await rpc.DescribeLogDirs(DescribeLogDirsRequest(topics=["other"]), None)
        assert [list(each.replicas) for each in other.log_dirs] == [[], []]


async def test_partitions_can_be_named(tmp_path: Path) -> None:
    fs = MeasuredDisk()
    async with run_node(tmp_path, 1, fs) as node:
        await two_partitions(node)
        name = next(iter(node.replicas.partitions.values())).log.topic

        async def indices(**topics: list[int]) -> list[int]:
            [only] = await described(node, fs, 4, wanted(**topics))
            return [p.partition_index for t in only.topics for p in t.partitions]

        assert await indices(**{name: [1, 7]}) == [1]
        assert await indices(**{name: []}) == []
        assert await indices(unknown=[0]) == []
        assert await indices() == []


async def test_a_directory_out_of_service_has_an_error(tmp_path: Path) -> None:
    fs = MeasuredDisk()
    async with run_node(tmp_path, 1, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b") as node:
        await two_partitions(node)
        dirs = node.replicas.dirs
        dirs.fail(dirs.all[1], "it burns")
        good, bad = await described(node, fs, 4)
        assert (good.log_dir, good.error_code) == (f"{tmp_path}/a", 0)
        assert (bad.log_dir, bad.error_code, bad.topics) == (f"{tmp_path}/b", 56, [])
        assert (bad.total_bytes, bad.usable_bytes) == (-1, -1)


async def test_a_disk_that_does_not_report_its_space_is_described_without(tmp_path: Path) -> None:
    fs = MeasuredDisk()
    async with run_node(tmp_path, 1, fs) as node:
        fs.is_mounted = False
        [only] = await described(node, fs, 4)
        assert (only.error_code, only.total_bytes, only.usable_bytes) == (0, -1, -1)
