"""Blocking clients, for scripts, notebooks and threads.

Each object runs its asynchronous twin on an event loop in a background thread of its own. Several
threads may use one object. An interrupted call (Ctrl-C) cancels its counterpart on the loop.

Callbacks run on the background thread. A callback that calls its own object would deadlock, so it
gets ClientMisused; the producer's `send` is the exception. A forked child does not have the thread,
so every call there gets the same error.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from strandline._admin.groups import BlockingGroupAdministration
from strandline._admin.reassignments import BlockingReassignments
from strandline._admin.transactions import BlockingTransactionAdministration
from strandline._blocking.background import Blocking
from strandline._blocking.consumer import Consumer, ConsumerRebalanceListener
from strandline._blocking.exactly_once import ConsumeTransformProduce, TransactionalBatch
from strandline._blocking.producer import Producer
from strandline._net.dotted_names import options_of
from strandline._net.option_names import named_options
from strandline.admin import Admin as AsyncAdmin
from strandline.types import ElectionType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

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
    from strandline_runtime.runtime import Runtime

__all__ = [
    "Admin",
    "ConsumeTransformProduce",
    "Consumer",
    "ConsumerRebalanceListener",
    "Producer",
    "TransactionalBatch",
]


class Admin(
    Blocking[AsyncAdmin],
    BlockingGroupAdministration,
    BlockingTransactionAdministration,
    BlockingReassignments,
):
    """The blocking form of `strandline.Admin`, with the same options."""

    @named_options
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        request_timeout_ms: float = 30_000,
        connect_timeout_ms: float = 10_000,
        security_protocol: str = "PLAINTEXT",
        client_id: str | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        super().__init__(
            "admin",
            AsyncAdmin(
                bootstrap_servers,
                request_timeout_ms=request_timeout_ms,
                connect_timeout_ms=connect_timeout_ms,
                security_protocol=security_protocol,
                client_id=client_id,
                runtime=runtime,
            ),
        )

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Makes an admin from Kafka's dotted option names, such as `bootstrap.servers`.

        Names of this library, and of other libraries for the same option, work too. Text becomes
        the option's type: "true", "5".
        """
        return cls(**options_of("Admin", Admin.__init__, config))

    def within(self, timeout_ms: float) -> Self:
        """Returns this started admin with another time limit for its calls.

        `admin.within(5_000).list_topics()` takes five seconds at most.
        """
        limited = copy(self)
        limited._twin = self._run(lambda twin: twin.within(timeout_ms))
        return limited

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> list[CreatedTopic]:
        """Creates topics, each atomically, and returns them in the order of the arguments.

        Returns once this client's next calls can use them.
        """
        return self._call(lambda twin: twin.create_topics(topics, validate_only=validate_only))

    def create_partitions(
        self, wanted: Mapping[str, NewPartitions | int], *, validate_only: bool = False
    ) -> dict[str, int]:
        """Grows each topic to a number of partitions, and returns how many it had.

        Raises InvalidPartitions unless the number is greater than before.
        """
        return self._call(lambda twin: twin.create_partitions(wanted, validate_only=validate_only))

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Deletes topics by name. Raises UnknownTopicOrPartition for a missing one."""
        self._call(lambda twin: twin.delete_topics(topics))

    def delete_records(
        self, before: Mapping[TopicPartition | tuple[str, int], int]
    ) -> dict[TopicPartition, int]:
        """Deletes the records below an offset in each partition; -1 stands for all committed ones.

        Returns the new start offset of each partition. Raises OffsetOutOfRange for an offset above
        the high watermark, PolicyViolation for a topic that is only compacted.
        """
        return self._call(lambda twin: twin.delete_records(before))

    def elect_leaders(
        self,
        kind: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition | tuple[str, int] | str] | None = None,
    ) -> list[ElectionResult]:
        """Elects leaders, each partition by itself; a topic's name stands for all its partitions.

        Without `partitions`, elects for every partition that its preferred leader does not lead.
        Each result has the leader, and the error if the leader did not change.
        """
        return self._call(lambda twin: twin.elect_leaders(kind, partitions))

    def move_leaders(
        self, leaders: Mapping[TopicPartition | tuple[str, int], int]
    ) -> list[ElectionResult]:
        """Makes the given in-sync replica the leader of each partition, until the next election."""
        return self._call(lambda twin: twin.move_leaders(leaders))

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Returns the names of all topics, sorted; internal topics only if asked."""
        return self._call(lambda twin: twin.list_topics(include_internal=include_internal))

    def describe_topics(
        self, topics: Iterable[str] | None = None, *, include_internal: bool = False
    ) -> dict[str, TopicDescription]:
        """Describes the partitions of the named topics, or of all topics if none is named.

        Raises UnknownTopicOrPartition for a missing topic.
        """
        return self._call(
            lambda twin: twin.describe_topics(topics, include_internal=include_internal)
        )

    def describe_cluster(self) -> ClusterDescription:
        """Describes the controller and every registered broker, as the controller knows them."""
        return self._call(lambda twin: twin.describe_cluster())

    def brokers(self) -> list[Broker]:
        """Returns the live brokers and their addresses for clients, sorted by id."""
        return self._call(lambda twin: twin.brokers())

    def describe_replicas(self, topics: Iterable[str] | None = None) -> list[ReplicaInfo]:
        """Describes each replica of `topics` (of all topics by default), as its broker reports it.

        Replicas of an unreachable broker are missing in the result.
        """
        return self._call(lambda twin: twin.describe_replicas(topics))

    def allow_truncation(
        self, partition: TopicPartition | tuple[str, int], *, broker: int, offset: int
    ) -> None:
        """Permits a replica to truncate the committed records that it has refused to truncate.

        `offset` is the one that the replica reports. The records from `offset` on are lost unless
        another replica holds them. Raises InvalidRequest if the replica has refused nothing,
        OffsetOutOfRange if it was to truncate at another offset.
        """
        return self._call(
            lambda twin: twin.allow_truncation(partition, broker=broker, offset=offset)
        )

    def describe_configs(
        self, resources: Iterable[tuple[str, str | int]]
    ) -> dict[tuple[str, str], dict[str, ConfigValue]]:
        """Describes the configuration of ("topic", name), ("broker", id) and ("group", id).

        ("broker", "") is the configuration altered at run time for all brokers. Raises
        BrokerUnreachable for a broker that is down.
        """
        return self._call(lambda twin: twin.describe_configs(resources))

    def incremental_alter_configs(
        self,
        changes: Mapping[tuple[str, str | int], Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> list[int]:
        """Alters keys of ("topic", name), ("broker", id), ("group", id) or, for all brokers,
        ("broker", "").

        Each resource is altered atomically. Returns the ids of live brokers that have not confirmed
        the change yet; the change is durable by then.
        """
        return self._call(
            lambda twin: twin.incremental_alter_configs(changes, validate_only=validate_only)
        )

    def list_offsets(self, topic: str) -> list[TopicOffsets]:
        """Returns the first readable offset and the end offset of each partition of `topic`."""
        return self._call(lambda twin: twin.list_offsets(topic))
