"""DescribeLogDirs: the data directories of this broker (KIP-113, KIP-827)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.kafka.codec import answer_of
from strandline_proto.errors import NONE, KafkaStorageError

if TYPE_CHECKING:
    from strandline_broker.hosts.serving.log_dirs import DescribedDir, LogDirsService
    from strandline_broker.kafka.request import Request


class LogDirsCalls:
    def __init__(self, log_dirs: LogDirsService) -> None:
        self._log_dirs = log_dirs

    async def DescribeLogDirs(self, request: Request, message: Any) -> Any:
        wanted: dict[str, set[int]] | None = None
        if message.topics is not None:
            wanted = {}
            for topic in message.topics:
                wanted.setdefault(topic.topic, set()).update(topic.partitions)
        answer = answer_of("DescribeLogDirs")
        turns, results = Turns(), []
        for each in await self._log_dirs.describe(wanted):
            results.append(_result(answer, each))
            await turns.took(1 + len(each.replicas))
        return answer(error_code=NONE, results=results)


def _result(answer: Any, described: DescribedDir) -> Any:
    kind = answer.DescribeLogDirsResult
    topics: dict[str, Any] = {}
    for replica in described.replicas:
        if replica.topic not in topics:
            topics[replica.topic] = kind.DescribeLogDirsTopic(name=replica.topic, partitions=[])
        topics[replica.topic].partitions.append(
            kind.DescribeLogDirsTopic.DescribeLogDirsPartition(
                partition_index=replica.partition,
                partition_size=replica.size_bytes,
                offset_lag=replica.lag,
                is_future_key=False,
            )
        )
    return kind(
        error_code=NONE if described.failure is None else KafkaStorageError.code,
        log_dir=described.path,
        topics=list(topics.values()),
        total_bytes=described.total_bytes,
        usable_bytes=described.usable_bytes,
    )
