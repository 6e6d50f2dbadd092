"""Topics and the description of the cluster, on the wire; brokers forward these calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.topics.topics import NewTopic
from strandline_broker.core.registration import kafka_listeners
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.rpc.cluster.replica_conditions import refusal_to_wire
from strandline_broker.rpc.controller.answers import limit_s, refuse
from strandline_proto.errors import WireError
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import common_pb2, metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_broker.core.controller.log.state import Broker
    from strandline_broker.core.controller.partitions.losses import LossReport
    from strandline_broker.hosts.controller.controller import Controller

NAMED_BYTES_MAX: Final = 32 << 20
"""Limit of the bytes that brokers name in heartbeats, in one description: half of what a message
may hold.
"""
REFUSAL_BYTES_MAX: Final = 100
NAME_OVERHEAD: Final = 6
"""Bytes of a tag and a length."""


class TopicsRpc:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def CreateTopics(
        self, request: metadata_pb2.CreateTopicsRequest, context: Any
    ) -> metadata_pb2.CreateTopicsResponse:
        response = metadata_pb2.CreateTopicsResponse()
        async for topic in in_turns(request.topics):
            result = response.topics.add(name=topic.name)
            try:
                async with asyncio.timeout(limit_s(request.timeout_ms)):
                    created = await self._controller.administration.create_topic(
                        _new_topic(topic), validate_only=request.validate_only
                    )
                result.partitions = created.partitions
                result.replication_factor = created.replication_factor
                if not request.validate_only:
                    result.topic_id = created.topic_id
            except (WireError, TimeoutError) as error:
                refuse(result, error, f"topic {result.name}")
        response.metadata_offset = self._controller.state.last_offset
        return response

    async def DeleteTopics(
        self, request: metadata_pb2.DeleteTopicsRequest, context: Any
    ) -> metadata_pb2.DeleteTopicsResponse:
        response = metadata_pb2.DeleteTopicsResponse()
        async for topic in in_turns(request.topics):
            result = response.topics.add(name=topic.name, topic_id=topic.topic_id)
            try:
                async with asyncio.timeout(limit_s(request.timeout_ms)):
                    deleted = await self._controller.administration.delete_topic(
                        name=topic.name, topic_id=topic.topic_id
                    )
                result.name, result.topic_id = deleted.name, deleted.topic_id
            except (WireError, TimeoutError) as error:
                refuse(result, error, f"topic {result.name}")
        response.metadata_offset = self._controller.state.last_offset
        return response


def _new_topic(topic: metadata_pb2.NewTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            (a.partition, tuple(BrokerId(b) for b in a.broker_ids)) for a in topic.assignments
        ),
        configs=tuple((entry.name, entry.value) for entry in topic.configs),
    )


class ClusterRpc:
    def __init__(
        self, controller: Controller, *, pid: int, host: str, port: int, build: str
    ) -> None:
        self._controller = controller
        self._pid = pid
        self._host = host
        self._port = port
        self._build = build

    async def DescribeCluster(
        self, request: metadata_pb2.DescribeClusterRequest, context: Any
    ) -> metadata_pb2.DescribeClusterResponse:
        controller = self._controller
        identity, state = controller.identity, controller.state
        brokers = sorted(state.brokers.values(), key=lambda broker: broker.broker_id)
        return metadata_pb2.DescribeClusterResponse(
            cluster_id=identity.cluster_id,
            controller=metadata_pb2.ControllerDescription(
                id=identity.node_id,
                pid=self._pid,
                host=self._host,
                port=self._port,
                state="ACTIVE",
                controller_epoch=state.controller_epoch,
                metadata_offset=state.last_offset,
                store_id=identity.store_id,
                version=self._build,
            ),
            brokers=[self._broker(each, NAMED_BYTES_MAX // len(brokers)) for each in brokers],
            losses=[_loss(report) for report in state.losses],
        )

    def _broker(self, broker: Broker, room: int) -> metadata_pb2.BrokerDescription:
        """A broker with the first names from its heartbeats, as many as `room` bytes hold."""
        heard_ms = self._controller.sessions.heard_ms(broker.broker_id)
        told = self._controller.told.get(broker.broker_id)
        room //= 4
        return metadata_pb2.BrokerDescription(
            id=broker.broker_id,
            incarnation_id=broker.incarnation_id,
            broker_epoch=broker.epoch,
            state=_state(broker),
            pid=broker.pid,
            listeners=[
                common_pb2.Endpoint(listener=e.listener, host=e.host, port=e.port)
                for e in broker.listeners
            ],
            kafka_listeners=_kafka_listeners(broker),
            rack=broker.rack,
            version=broker.version,
            last_heard_ms=-1 if heard_ms is None else self._controller.now_ms() - heard_ms,
            offline_log_dirs=() if told is None else _within(room, told.offline_log_dirs),
            decommissioning=broker.decommissioning,
            stray_dirs=() if told is None else _within(room, told.stray_dirs),
            full_log_dirs=() if told is None else _within(room, told.full_log_dirs),
            lacks_descriptors=told is not None and told.lacks_descriptors,
            refused_truncations=(
                ()
                if told is None
                else map(refusal_to_wire, told.refused[: room // REFUSAL_BYTES_MAX])
            ),
        )


def _kafka_listeners(broker: Broker) -> Iterator[str]:
    named = kafka_listeners(broker.features)
    return (each.listener for each in broker.listeners if each.listener in named)


def _within(room: int, names: Iterable[str]) -> Iterator[str]:
    """The first of `names`, as long as they fit."""
    for name in names:
        room -= len(name.encode()) + NAME_OVERHEAD
        if room < 0:
            return
        yield name


def _loss(report: LossReport) -> metadata_pb2.LossDescription:
    return metadata_pb2.LossDescription(
        topic=report.topic,
        topic_id=report.topic_id,
        partition=report.partition,
        leader_epoch=report.leader_epoch,
        leader=report.leader,
        elected_uncleanly=report.elected_uncleanly,
        start_offset=report.start,
        end_offset=report.end,
        acknowledged=report.acknowledged,
        brokers=report.brokers,
        possibly_from=report.possibly_from,
    )


def _state(broker: Broker) -> str:
    if broker.fenced:
        return "FENCED"
    return "CONTROLLED_SHUTDOWN" if broker.in_controlled_shutdown else "UNFENCED"
