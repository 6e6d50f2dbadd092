"""DescribeLogDirs: the data directories of this broker, and the size of each replica in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.turns import Turns
from strandline_proto.v1 import log_dirs_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.serving.log_dirs import DescribedDir, LogDirsService


class LogDirsRpc:
    def __init__(self, log_dirs: LogDirsService) -> None:
        self._log_dirs = log_dirs

    async def DescribeLogDirs(
        self, request: log_dirs_pb2.DescribeLogDirsRequest, context: Any
    ) -> log_dirs_pb2.DescribeLogDirsResponse:
        wanted = set(request.topics)
        response = log_dirs_pb2.DescribeLogDirsResponse(broker_id=self._log_dirs.broker_id)
        turns = Turns()
        for each in await self._log_dirs.describe(None):
            response.log_dirs.append(_to_wire(each, wanted))
            await turns.took(1 + len(each.replicas))
        return response


def _to_wire(described: DescribedDir, wanted: set[str]) -> log_dirs_pb2.LogDirDescription:
    return log_dirs_pb2.LogDirDescription(
        path=described.path,
        failure=described.failure or "",
        total_bytes=described.total_bytes,
        usable_bytes=described.usable_bytes,
        replicas=[
            log_dirs_pb2.ReplicaOnDisk(
                topic=replica.topic,
                partition=replica.partition,
                size_bytes=replica.size_bytes,
                offset_lag=replica.lag,
            )
            for replica in described.replicas
            if not wanted or replica.topic in wanted
        ],
    )
