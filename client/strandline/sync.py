"""The same names, blocking: each object runs its asynchronous twin on one background thread with an
event loop.

For scripts, notebooks and threads. An object may be used from several threads; a call that is
interrupted (Ctrl-C) cancels its counterpart on the loop. Callbacks run on the object's own thread,
where whoever waits for the object waits for itself: that is refused, as is every call in a forked
child, which has no such thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline._admin.groups import BlockingGroupAdministration
from strandline._admin.reassignments import BlockingReassignments
from strandline._blocking.background import Blocking
from strandline._blocking.consumer import Consumer, ConsumerRebalanceListener
from strandline._blocking.producer import Producer
from strandline.admin import Admin as AsyncAdmin
from strandline.types import ElectionType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline.types import (
        Broker,
        ClusterDescription,
        ConfigChange,
        ConfigValue,
        CreatedTopic,
        ElectionResult,
        NewPartitions,
        NewTopic,
        ReplicaInfo,
        TopicDescription,
        TopicOffsets,
        TopicPartition,
    )

__all__ = ["Admin", "Consumer", "ConsumerRebalanceListener", "Producer"]


class Admin(Blocking[AsyncAdmin], BlockingGroupAdministration, BlockingReassignments):
    """`strandline.Admin`, blocking. Takes the same options."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        super().__init__("admin", AsyncAdmin(bootstrap_servers, **options))

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> list[CreatedTopic]:
        return self._call(lambda twin: twin.create_topics(topics, validate_only=validate_only))

    def create_partitions(
        self, wanted: Mapping[str, NewPartitions | int], *, validate_only: bool = False
    ) -> dict[str, int]:
        return self._call(lambda twin: twin.create_partitions(wanted, validate_only=validate_only))

    def delete_topics(self, topics: Iterable[str]) -> None:
        self._call(lambda twin: twin.delete_topics(topics))

    def delete_records(
        self, before: Mapping[TopicPartition | tuple[str, int], int]
    ) -> dict[TopicPartition, int]:
        return self._call(lambda twin: twin.delete_records(before))

    def elect_leaders(
        self,
        kind: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition | tuple[str, int] | str] | None = None,
    ) -> list[ElectionResult]:
        return self._call(lambda twin: twin.elect_leaders(kind, partitions))

    def move_leaders(
        self, leaders: Mapping[TopicPartition | tuple[str, int], int]
    ) -> list[ElectionResult]:
        return self._call(lambda twin: twin.move_leaders(leaders))

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        return self._call(lambda twin: twin.list_topics(include_internal=include_internal))

    def describe_topics(
        self, topics: Iterable[str] | None = None, *, include_internal: bool = False
    ) -> dict[str, TopicDescription]:
        return self._call(
            lambda twin: twin.describe_topics(topics, include_internal=include_internal)
        )

    def describe_cluster(self) -> ClusterDescription:
        return self._call(lambda twin: twin.describe_cluster())

    def brokers(self) -> list[Broker]:
        return self._call(lambda twin: twin.brokers())

    def describe_replicas(self, topics: Iterable[str] | None = None) -> list[ReplicaInfo]:
        return self._call(lambda twin: twin.describe_replicas(topics))

    def allow_truncation(
        self, partition: TopicPartition | tuple[str, int], *, broker: int, offset: int
    ) -> None:
        return self._call(
            lambda twin: twin.allow_truncation(partition, broker=broker, offset=offset)
        )

    def describe_configs(
        self, resources: Iterable[tuple[str, str | int]]
    ) -> dict[tuple[str, str], dict[str, ConfigValue]]:
        return self._call(lambda twin: twin.describe_configs(resources))

    def incremental_alter_configs(
        self,
        changes: Mapping[tuple[str, str | int], Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> list[int]:
        return self._call(
            lambda twin: twin.incremental_alter_configs(changes, validate_only=validate_only)
        )

    def list_offsets(self, topic: str) -> list[TopicOffsets]:
        return self._call(lambda twin: twin.list_offsets(topic))
