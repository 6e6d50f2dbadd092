"""DeleteRecords: the log start of a partition led here rises, on every replica in sync (I-75)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.replicas import replica_of
from strandline_proto.errors import InvalidTopic, RequestTimedOut

if TYPE_CHECKING:
    from strandline_broker.hosts.member.replica_manager import ReplicaManager

TIMEOUT_MS_MAX: Final = 300_000
AT_ONCE: Final = 100
"""Partitions whose deletion begins between two yields to other calls."""


class DeleteRecordsService:
    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    async def delete_before(self, key: tuple[bytes, int], offset: int, timeout_ms: int) -> int:
        """Returns the low watermark once all replicas in sync have deleted. Raises WireError.

        `offset` -1 means the high watermark. The limit is cut to five minutes; the records go all
        the same after it.
        """
        limit_ms = min(max(timeout_ms, 0), TIMEOUT_MS_MAX)
        partition = replica_of(self._replicas, *key)
        if partition.log.topic in INTERNAL_TOPICS:
            raise InvalidTopic(
                f"topic {partition.log.topic} is internal: only its coordinators delete its records"
            )
        leading = check_leader(partition, None)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await leading.deletions.delete_before(offset)
        except TimeoutError:
            raise RequestTimedOut(
                f"{partition.name}: not every replica in sync had deleted the records within"
                f" {limit_ms} ms; they are deleted at the leader and follow elsewhere:"
                f" {leading.describe_isr()}"
            ) from None
