"""The administrator's calls: topics, cluster, replicas, configuration, offsets, groups."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING, Any

from strandline._admin.descriptions import (
    add_topic,
    broker_info,
    controller_info,
    description,
    loss_info,
    replica,
)
from strandline._admin.groups import GroupAdministration
from strandline._admin.reassignments import Reassignments
from strandline._admin.topic_calls import (
    CreatedTopics,
    allow_truncation,
    delete_below,
    election,
    more_partitions,
    moves,
    partitions_before,
    results,
)
from strandline._admin.transactions import TransactionAdministration
from strandline._net.answers import check
from strandline._net.arguments import INT64_MAX, mapping, milliseconds, plaintext, several, whole
from strandline._net.arguments import client_id as named
from strandline._net.cluster import LOOK_TIMEOUT_S
from strandline._net.configs import alteration, describe_configs, resources_of
from strandline._net.connections import parse_bootstrap
from strandline._net.dotted_names import options_of
from strandline._net.offsets import Offsets
from strandline._net.option_names import named_options
from strandline._net.session import Session
from strandline.errors import (
    BrokerUnreachable,
    ClientClosed,
    ClientMisused,
    OperationTimedOut,
    UnknownTopicOrPartition,
    from_code,
)
from strandline.types import (
    Broker,
    ClusterDescription,
    CreatedTopic,
    ElectionType,
    NewTopic,
    ReplicaInfo,
    TopicDescription,
    TopicOffsets,
    TopicPartition,
)
from strandline_proto.errors import NONE
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from strandline.types import ConfigChange, ConfigValue, ElectionResult, NewPartitions
    from strandline_proto.v1 import elections_pb2
    from strandline_runtime.runtime import Runtime


class Admin(GroupAdministration, TransactionAdministration, Reassignments):
    """Describes and changes the cluster. Use it as an asynchronous context manager.

    Every call takes its deadline from `request_timeout_ms`. A call about several topics raises the
    first error after it has handled all of them.
    """

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
        self._bootstrap = parse_bootstrap(bootstrap_servers)
        milliseconds("request_timeout_ms", request_timeout_ms)
        milliseconds("connect_timeout_ms", connect_timeout_ms)
        self._timeout_s = request_timeout_ms / 1000
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._runtime = runtime
        plaintext(security_protocol)
        self._client_id = named(client_id)
        self._owner: Admin | None = None
        """The admin that this one limits; it has the session."""
        self._session: Session | None = None
        self._created = CreatedTopics()

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Makes an admin from Kafka's dotted option names, such as `bootstrap.servers`.

        Names of this library, and of other libraries for the same option, work too. Text becomes
        the option's type: "true", "5".
        """
        return cls(**options_of("Admin", Admin.__init__, config))

    def within(self, timeout_ms: float) -> Self:
        """Returns this started admin with another time limit for its calls.

        `await admin.within(5_000).list_topics()` takes five seconds at most.
        """
        milliseconds("timeout_ms", timeout_ms)
        self._started()
        limited = copy(self)
        limited._timeout_s = timeout_ms / 1000
        limited._owner = self
        return limited

    # Life.

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connects. Raises NoBrokerReachable, and leaves no connection behind then."""
        if self._session is not None:
            self._session.require()
            raise ClientClosed("the admin has been started already")
        session = Session("admin", self._bootstrap, self._runtime, self._client_id)
        await session.open(self._connect_timeout_s, lambda: self._session)
        self._session = session

    async def close(self) -> None:
        """Closes all connections."""
        if self._owner is not None:
            raise ClientMisused("this is within(...) of another admin, which has the connections")
        session = self._session
        if session is None or session.is_elsewhere:
            return
        session.require_own_loop()
        self._session = None
        await session.close()

    def _started(self) -> Session:
        if self._session is None:
            raise ClientClosed("the admin is not started, or closed; use `async with`")
        self._session.require()
        return self._session

    async def _ask(self, method: Callable[[Any], Callable[..., Any]], request: Any) -> Any:
        """Makes one call, which is safe to repeat, to any broker that answers."""
        only_looks = isinstance(request, metadata_pb2.MetadataRequest)
        attempt_s = LOOK_TIMEOUT_S if only_looks else None  # a broker may be paused, others are not
        return await self._started().cluster.ask_any(
            method, request, timeout_s=self._timeout_s, attempt_s=attempt_s, returns=object
        )

    # Topics.

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> list[CreatedTopic]:
        """Creates topics, each atomically, and returns them in the order of the arguments.

        Returns once this client's next calls can use them.
        """
        request = metadata_pb2.CreateTopicsRequest(
            timeout_ms=int(self._timeout_s * 1000), validate_only=validate_only
        )
        for topic in several("topics", topics, NewTopic, str):
            add_topic(request, NewTopic(topic) if isinstance(topic, str) else topic)
        answer = await self._ask(lambda stub: stub.CreateTopics, request)
        check(answer)
        results = {result.name: result for result in answer.topics}
        created = []
        for wanted in request.topics:
            result = results.get(wanted.name)
            if result is None:
                raise BrokerUnreachable(f"the answer says nothing about topic {wanted.name!r}")
            check(result)
            created.append(
                CreatedTopic(
                    result.name, result.topic_id, result.partitions, result.replication_factor
                )
            )
        if not validate_only:
            for made in created:
                self._created.add(made.name)
                await self._appears(made.name)
        return created

    async def create_partitions(
        self, wanted: Mapping[str, NewPartitions | int], *, validate_only: bool = False
    ) -> dict[str, int]:
        """Grows each topic to a number of partitions, and returns how many it had.

        A key may belong to another partition afterwards; written records stay where they are.
        Producers, and consumers of whole topics, find the new partitions by themselves. Raises
        InvalidPartitions unless the number is greater than before.
        """
        request = more_partitions(wanted, timeout_s=self._timeout_s, validate_only=validate_only)
        answer = await self._ask(lambda stub: stub.CreatePartitions, request)
        before = partitions_before(request, answer)
        if not validate_only:
            for topic in request.topics:
                await self._appears(topic.name, topic.count)
        return before

    async def _appears(self, name: str, count: int = 1) -> None:
        """Waits until metadata has `count` partitions with leaders; at most two seconds."""
        cluster = self._started().cluster
        try:
            async with asyncio.timeout(min(2.0, self._timeout_s)):
                while True:
                    topic = await cluster.topic(name, self._timeout_s)
                    led = [p for p in topic.partitions.values() if p.leader >= 0]
                    if len(led) >= max(count, len(topic.partitions)):
                        return
                    await cluster.refresh(self._timeout_s)
        except (TimeoutError, UnknownTopicOrPartition):
            return  # the topic exists; the next call that uses it waits for metadata

    async def delete_topics(self, topics: Iterable[str]) -> None:
        """Deletes topics by name. Raises UnknownTopicOrPartition for a missing one."""
        request = metadata_pb2.DeleteTopicsRequest(timeout_ms=int(self._timeout_s * 1000))
        for name in several("topics", topics, str):
            request.topics.add(name=name)
            self._created.forget(name)
        answer = await self._ask(lambda stub: stub.DeleteTopics, request)
        check(answer)
        for result in answer.topics:
            if result.error_code == UnknownTopicOrPartition.code:
                raise UnknownTopicOrPartition(f"topic {result.name!r} does not exist")
            check(result)

    async def delete_records(
        self, before: Mapping[TopicPartition | tuple[str, int], int]
    ) -> dict[TopicPartition, int]:
        """Deletes the records below an offset in each partition; -1 stands for all committed ones.

        Returns the new start offset of each partition, which every live in-sync replica has.
        Raises OffsetOutOfRange for an offset above the high watermark, PolicyViolation for a topic
        that is only compacted; the other partitions are handled all the same.
        """
        session = self._started()
        wanted = {}
        for (name, partition), offset in mapping("before", before).items():
            whole("before", offset, -1, INT64_MAX)
            topic = await session.cluster.topic(name, self._timeout_s)
            if partition not in topic.partitions:
                raise UnknownTopicOrPartition(
                    f"topic {name!r} has no partition {partition}; it has {len(topic.partitions)}, "
                    f"counted from 0"
                )
            wanted[topic.topic_id, partition] = offset
        found = await delete_below(session, wanted, self._timeout_s)
        partitions = [TopicPartition(*partition) for partition in before]
        return dict(zip(partitions, map(found.__getitem__, wanted), strict=True))

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Returns the names of all topics, sorted; the two internal ones only if asked."""
        answer = await self._ask(lambda stub: stub.Metadata, metadata_pb2.MetadataRequest())
        return sorted(t.name for t in answer.topics if include_internal or not t.is_internal)

    async def describe_topics(
        self, topics: Iterable[str] | None = None, *, include_internal: bool = False
    ) -> dict[str, TopicDescription]:
        """Returns leaders, replicas and in-sync replicas of the named topics; of all by default.

        The two internal topics are included if they are named or `include_internal` is set. Raises
        UnknownTopicOrPartition for a missing topic.
        """
        request = metadata_pb2.MetadataRequest()
        if topics is not None:
            request.only_named = True
            for name in several("topics", topics, str):
                request.topics.add(name=name)
        answer = await self._created.described(self._ask, request, self._timeout_s)
        found = {}
        for topic in answer.topics:
            if topic.is_internal and topics is None and not include_internal:
                continue
            if topic.error_code == UnknownTopicOrPartition.code:
                raise UnknownTopicOrPartition(f"topic {topic.name!r} does not exist")
            if topic.error_code != NONE:
                raise from_code(topic.error_code, f"topic {topic.name!r}")
            found[topic.name] = description(topic)
        return found

    # Leaders.

    async def elect_leaders(
        self,
        kind: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition | tuple[str, int] | str] | None = None,
    ) -> list[ElectionResult]:
        """Elects leaders, each partition by itself; a topic's name stands for all its partitions.

        Without `partitions`, elects for every partition that its preferred leader does not lead.
        No acknowledged record is lost; producers and consumers find the new leader by themselves.
        Errors of single partitions are in the results; an error of the whole request is raised.
        """
        request = election(kind, partitions, self._timeout_s)
        return [] if request is None else await self._elect(request)

    async def move_leaders(
        self, leaders: Mapping[TopicPartition | tuple[str, int], int]
    ) -> list[ElectionResult]:
        """Makes the given in-sync replica the leader of each partition.

        The replica leads until the next election, which may restore the preferred leader.
        """
        request = moves(leaders, self._timeout_s)
        return [] if request is None else await self._elect(request)

    async def _elect(self, request: elections_pb2.ElectLeadersRequest) -> list[ElectionResult]:
        return results(await self._ask(lambda stub: stub.ElectLeaders, request))

    # Cluster.

    async def describe_cluster(self) -> ClusterDescription:
        """Describes the controller and every registered broker, as the controller knows them."""
        answer = await self._ask(
            lambda stub: stub.DescribeCluster, metadata_pb2.DescribeClusterRequest()
        )
        check(answer)
        return ClusterDescription(
            answer.cluster_id,
            controller_info(answer.controller),
            tuple(broker_info(broker) for broker in answer.brokers),
            tuple(loss_info(loss) for loss in answer.losses),
        )

    async def brokers(self) -> list[Broker]:
        """Returns the live brokers and their addresses for clients, sorted by id."""
        answer = await self._ask(
            lambda stub: stub.Metadata, metadata_pb2.MetadataRequest(only_named=True)
        )
        return sorted(
            (Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers),
            key=lambda broker: broker.id,
        )

    async def describe_replicas(self, topics: Iterable[str] | None = None) -> list[ReplicaInfo]:
        """Describes each replica of `topics` (of all topics by default), as its broker reports it.

        Replicas of an unreachable broker are missing in the result.
        """
        session = self._started()
        request = metadata_pb2.DescribeReplicasRequest()
        if topics is not None:
            described = await self.describe_topics(topics)
            for topic in described.values():
                request.topics.add(topic_id=topic.topic_id)
        await session.cluster.refresh(self._timeout_s)
        found: list[ReplicaInfo] = []

        async def ask(address: str) -> None:
            try:
                answer = await session.connections.call(
                    address,
                    lambda stub: stub.DescribeReplicas,
                    request,
                    timeout_s=min(self._timeout_s, 5.0),
                    returns=metadata_pb2.DescribeReplicasResponse,
                )
            except (BrokerUnreachable, OperationTimedOut):
                return
            found.extend(replica(r, answer.broker_id) for r in answer.replicas)

        async with asyncio.TaskGroup() as group:
            for broker in session.cluster.view.brokers.values():
                group.create_task(ask(broker.address))
        return sorted(found, key=lambda r: (r.topic, r.partition, r.broker))

    async def allow_truncation(
        self, partition: TopicPartition | tuple[str, int], *, broker: int, offset: int
    ) -> None:
        """Permits a replica to truncate the committed records that it has refused to truncate.

        `offset` is the one that the replica reports. The records from `offset` on are lost unless
        another replica holds them. Raises InvalidRequest if the replica has refused nothing,
        OffsetOutOfRange if it was to truncate at another offset.
        """
        await allow_truncation(self._started(), partition, broker, offset, self._timeout_s)

    # Configuration.

    async def describe_configs(
        self, resources: Iterable[tuple[str, str | int]]
    ) -> dict[tuple[str, str], dict[str, ConfigValue]]:
        """Describes the configuration of ("topic", name), ("broker", id) and ("group", id), with
        the source of each value.

        ("broker", "") is the configuration altered at run time for all brokers. A broker describes
        itself: BrokerUnreachable is raised for one that is down.
        """
        return await describe_configs(self._started(), resources_of(resources), self._timeout_s)

    async def incremental_alter_configs(
        self,
        changes: Mapping[tuple[str, str | int], Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> list[int]:
        """Alters keys of ("topic", name), ("broker", id), ("group", id) or, for all brokers,
        ("broker", "").

        Each resource is altered atomically; other keys keep their values. Returns the ids of live
        brokers that have not confirmed the change; an empty list means that all have applied it.
        The change is durable by then and reaches the others later.
        """
        request = alteration(changes, timeout_s=self._timeout_s, validate_only=validate_only)
        answer = await self._ask(lambda stub: stub.IncrementalAlterConfigs, request)
        check(answer)
        for result in answer.results:
            check(result)
        return list(answer.pending_brokers)

    # Offsets.

    async def list_offsets(self, topic: str) -> list[TopicOffsets]:
        """Returns the first readable offset and the end offset of each partition of `topic`."""
        cluster = self._started().cluster
        offsets = Offsets(self._started())
        view = await cluster.topic(topic, self._timeout_s)
        keys = [(view.topic_id, partition) for partition in sorted(view.partitions)]
        starts = await offsets.listed(dict.fromkeys(keys, -2), self._timeout_s)
        ends = await offsets.listed(dict.fromkeys(keys, -1), self._timeout_s)
        return [
            TopicOffsets(
                TopicPartition(topic, key[1]),
                starts[key].offset,
                ends[key].offset,
                ends[key].leader_epoch,
            )
            for key in keys
        ]
