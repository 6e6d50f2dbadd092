"""A small cluster for the client's tests: real grpc.aio servers on loopback over logs in memory.

The brokers share one state, keep leader epochs, check sequence numbers as a leader does, and can be
told to misbehave: refuse, append without answering, fall silent, drop streams, stop, lose a suffix
of a log.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from strandline_proto import errors
from strandline_proto.batch import read_header
from strandline_proto.v1 import (
    fetch_pb2,
    metadata_pb2,
    produce_pb2,
    services_pb2_grpc,
)
from support.scripted_admin import ScriptedAdmin
from support.scripted_groups import Groups, ScriptedGroups
from support.scripted_log import Act, Partition
from support.scripted_reassignments import ScriptedReassignments
from support.scripted_transactions import ScriptedTransactions, Transactions
from support.unscripted import Unscripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class ScriptedCluster:
    """Shared truth of all scripted brokers."""

    def __init__(self) -> None:
        self.cluster_id = "scripted"
        self.topics: dict[str, tuple[bytes, list[Partition]]] = {}
        self.brokers: dict[int, ScriptedBroker] = {}
        self.groups = Groups(self.topics)
        self.transactions = Transactions()
        self.metadata_offset = 1
        self.next_producer_id = 1000
        self.identity_requests: list[tuple[int, int]] = []
        self.refuse_identity = 0

    def create(
        self, topic: str, partitions: int = 1, topic_id: bytes | None = None
    ) -> list[Partition]:
        self.metadata_offset += 1
        ids = sorted(self.brokers)
        made = [Partition(leader=ids[p % len(ids)]) for p in range(partitions)]
        self.topics[topic] = (topic_id or topic.encode().ljust(16, b"\0")[:16], made)
        return made

    def delete(self, topic: str) -> None:
        self.metadata_offset += 1
        del self.topics[topic]

    def partition(self, topic: str, partition: int = 0) -> Partition:
        return self.topics[topic][1][partition]

    def find(self, topic_id: bytes, partition: int) -> Partition | None:
        for known_id, partitions in self.topics.values():
            if known_id == topic_id and partition < len(partitions):
                return partitions[partition]
        return None

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        self.metadata_offset += 1
        p = self.partition(topic, partition)
        p.leader, p.leader_epoch = broker, p.leader_epoch + 1
        changed, p.changed = p.changed, asyncio.Event()
        changed.set()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{b.port}" for b in self.brokers.values())


class ScriptedBroker(
    ScriptedGroups,
    ScriptedAdmin,
    ScriptedReassignments,
    ScriptedTransactions,
    Unscripted,
    services_pb2_grpc.BrokerServiceServicer,
):
    """One broker of the cluster."""

    def __init__(self, cluster: ScriptedCluster, broker_id: int) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.port = 0
        self.awake = asyncio.Event()
        self.awake.set()
        self.calls: list[str] = []
        self.alterations = []
        self.fetches: list[fetch_pb2.FetchRequest] = []
        self.produced = 0
        self.message_bytes_max = 64 << 20
        self._server: grpc.aio.Server | None = None
        self._streams: set[asyncio.Event] = set()
        """One for each open stream; set, it makes the stream break."""

    async def start(self) -> None:
        limit = ("grpc.max_receive_message_length", self.message_bytes_max)
        options = [limit, ("grpc.so_reuseport", 0)]
        self._server = grpc.aio.server(options=options)
        services_pb2_grpc.add_BrokerServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)

    def drop_streams(self) -> None:
        for drop in self._streams:
            drop.set()

    def pause(self) -> None:
        self.awake.clear()

    def resume(self) -> None:
        self.awake.set()

    # Metadata.

    async def Metadata(self, request: Any, context: Any) -> Any:
        self.calls.append("Metadata")
        await self.awake.wait()
        answer = metadata_pb2.MetadataResponse(
            cluster_id=self.cluster.cluster_id,
            controller_id=100,
            metadata_offset=self.cluster.metadata_offset,
        )
        for broker in self.cluster.brokers.values():
            answer.brokers.add(node_id=broker.id, host="127.0.0.1", port=broker.port)
        names = [t.name for t in request.topics] if request.only_named else self.cluster.topics
        for name in names:
            known = self.cluster.topics.get(name)
            if known is None:
                code = 17 if not name or "/" in name else 3
                answer.topics.add(name=name, error_code=code)
                continue
            topic = answer.topics.add(name=name, topic_id=known[0])
            for index, p in enumerate(known[1]):
                topic.partitions.add(
                    index=index,
                    leader=p.leader,
                    leader_epoch=p.leader_epoch,
                    replicas=sorted(self.cluster.brokers),
                    isr=sorted(self.cluster.brokers),
                )
        return answer

    async def InitProducerId(self, request: Any, context: Any) -> Any:
        if request.HasField("transactional_id"):
            return await self.init_transactional(request, context)
        await self.awake.wait()
        cluster = self.cluster
        cluster.identity_requests.append((request.producer_id, request.producer_epoch))
        if cluster.refuse_identity > 0:
            cluster.refuse_identity -= 1
            return metadata_pb2.InitProducerIdResponse(error_code=41, error_message="no controller")
        if request.producer_id >= 0:
            return metadata_pb2.InitProducerIdResponse(
                producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1
            )
        cluster.next_producer_id += 1
        return metadata_pb2.InitProducerIdResponse(
            producer_id=cluster.next_producer_id, producer_epoch=0
        )

    async def _next(self, context: Any, drop: asyncio.Event) -> Any:
        """The next request of a stream; None at its end. Breaks the stream when told to.

        Cancelling the handler would do as well, but for the moments when gRPC then sends no status.
        """
        loop = asyncio.get_running_loop()
        reading, dropped = loop.create_task(context.read()), loop.create_task(drop.wait())
        try:
            await asyncio.wait([reading, dropped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            dropped.cancel()
            if not reading.done():
                reading.cancel()
        if drop.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped by the script")
        request = reading.result()
        return None if request is grpc.aio.EOF else request

    # Produce.

    async def Produce(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        drop = asyncio.Event()
        self._streams.add(drop)
        try:
            while (request := await self._next(context, drop)) is not None:
                await self.awake.wait()
                answer = self._produce(request)
                if answer is None:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped by the script")
                if request.acks != 0:
                    if answer.topics:
                        yield answer
                elif any(
                    result.error_code for topic in answer.topics for result in topic.partitions
                ):
                    return  # nothing else tells of it
        finally:
            self._streams.discard(drop)

    def _produce(self, request: Any) -> Any:
        answer = produce_pb2.ProduceResponse(correlation_id=request.correlation_id)
        for topic in request.topics:
            result_topic = produce_pb2.TopicProduceResult(topic_id=topic.topic_id)
            for data in topic.partitions:
                result = self._append(topic.topic_id, data, request.transactional_id)
                if isinstance(result, Act):
                    if result.drop_stream:
                        return None
                    continue
                result_topic.partitions.append(result)
            if result_topic.partitions:
                answer.topics.append(result_topic)
        return answer

    def _append(self, topic_id: bytes, data: Any, transactional_id: str) -> Any:
        self.produced += 1
        p = self.cluster.find(topic_id, data.index)
        result = produce_pb2.PartitionProduceResult(
            index=data.index, base_offset=-1, leader_epoch=-1
        )
        result.log_append_time_ms = -1
        if p is None:
            result.error_code = errors.UnknownTopicId.code
            return result
        if p.leader != self.id:
            result.error_code = errors.NotLeaderOrFollower.code
            result.current_leader.leader_id = p.leader
            result.current_leader.leader_epoch = p.leader_epoch
            return result
        act = p.acts.popleft() if p.acts else Act(append=True)
        if act.append and (code := self._join(transactional_id, p, data)):
            result.error_code = code
        elif act.append:
            code, base = p.append(data.records)
            result.error_code, result.base_offset = code, base
            result.appended = code == 0
            result.leader_epoch = p.leader_epoch if code == 0 else -1
        if act.code:
            result.error_code, result.base_offset = act.code, -1
            result.error_message = act.message
        if act.drop_stream or not act.answer:
            return act
        return result

    def _join(self, transactional_id: str, p: Partition, data: Any) -> int:
        """Adds the partition to the transaction of a transactional batch."""
        header = read_header(data.records)
        if not header.is_transactional:
            return 0
        transactions = self.cluster.transactions
        epoch, _ = p.producers.get(header.producer_id, (-1, -1))
        if header.producer_epoch < epoch:
            return errors.InvalidProducerEpoch.code
        code: int = transactions.add(transactional_id, header.producer_id, header.producer_epoch)
        known = transactions.ids.get(transactional_id)
        if not code and known is not None and all(p is not other for other in known.partitions):
            known.partitions.append(p)
        return code

    # Reading.

    async def Fetch(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        drop = asyncio.Event()
        self._streams.add(drop)
        session: dict[tuple[bytes, int], Any] = {}
        expected_epoch = 0
        try:
            while (request := await self._next(context, drop)) is not None:
                await self.awake.wait()
                self.fetches.append(request)
                if request.session_epoch != expected_epoch:
                    yield fetch_pb2.FetchResponse(
                        correlation_id=request.correlation_id,
                        error_code=errors.InvalidFetchSessionEpoch.code,
                    )
                    continue
                expected_epoch += 1
                for topic in request.topics:
                    for wanted in topic.partitions:
                        session[topic.topic_id, wanted.partition] = wanted
                for dropped in request.forgotten:
                    for partition in dropped.partitions:
                        session.pop((dropped.topic_id, partition), None)
                yield await self._fetch(request, session, drop)
        finally:
            self._streams.discard(drop)

    async def _fetch(
        self, request: Any, session: dict[tuple[bytes, int], Any], drop: asyncio.Event
    ) -> Any:
        answer = self._collect(request, session)
        if answer.topics or request.max_wait_ms == 0:
            return answer
        loop = asyncio.get_running_loop()
        events = [p.changed for key in session if (p := self.cluster.find(*key)) is not None]
        tasks = [loop.create_task(event.wait()) for event in [drop, *events]]
        try:
            await asyncio.wait(
                tasks,
                timeout=request.max_wait_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in tasks:
                task.cancel()
        return self._collect(request, session)

    def _collect(self, request: Any, session: dict[tuple[bytes, int], Any]) -> Any:
        answer = fetch_pb2.FetchResponse(correlation_id=request.correlation_id, session_id=7)
        for (topic_id, _), wanted in session.items():
            result = self._read(topic_id, wanted, request.isolation_level)
            if result.error_code or result.records or result.HasField("diverging_epoch"):
                answer.topics.add(topic_id=topic_id).partitions.append(result)
        return answer

    def _read(self, topic_id: bytes, wanted: Any, isolation_level: int = 0) -> Any:
        result = fetch_pb2.FetchPartitionResult(partition_index=wanted.partition)
        p = self.cluster.find(topic_id, wanted.partition)
        if p is None:
            result.error_code = errors.UnknownTopicId.code
            return result
        code = self._epoch_error(p, wanted.current_leader_epoch)
        if code:
            result.error_code = code
            result.current_leader.leader_id = p.leader
            result.current_leader.leader_epoch = p.leader_epoch
            return result
        result.high_watermark, result.last_stable_offset = p.end, p.stable_end
        result.log_start_offset = p.start
        beyond = wanted.fetch_offset > p.end and wanted.last_fetched_epoch < 0
        if wanted.fetch_offset < p.start or beyond:
            result.error_code = errors.OffsetOutOfRange.code
            return result
        if wanted.last_fetched_epoch >= 0:
            epoch, end = p.end_offset_for(wanted.last_fetched_epoch)
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                result.diverging_epoch.epoch = epoch
                result.diverging_epoch.end_offset = end
                return result
        limit = p.stable_end if isolation_level == 1 else None
        result.records = p.read(wanted.fetch_offset, wanted.partition_max_bytes, limit)
        if isolation_level == 1 and result.records:
            for producer_id, first, last in p.aborted:
                if last >= wanted.fetch_offset:
                    result.aborted_transactions.add(producer_id=producer_id, first_offset=first)
        return result

    def _epoch_error(self, p: Partition, epoch: int) -> int:
        if 0 <= epoch < p.leader_epoch:
            return errors.FencedLeaderEpoch.code
        if epoch > p.leader_epoch:
            return errors.UnknownLeaderEpoch.code
        return 0 if p.leader == self.id else errors.NotLeaderOrFollower.code

    async def ListOffsets(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        answer = fetch_pb2.ListOffsetsResponse()
        for topic in request.topics:
            results = answer.topics.add(topic_id=topic.topic_id)
            for wanted in topic.partitions:
                p = self.cluster.find(topic.topic_id, wanted.partition)
                result = results.partitions.add(partition=wanted.partition, offset=-1, timestamp=-1)
                if p is None:
                    result.error_code = errors.UnknownTopicId.code
                    continue
                result.error_code = self._epoch_error(p, wanted.current_leader_epoch)
                result.leader_epoch = p.leader_epoch
                if wanted.timestamp == -1:
                    result.offset = p.stable_end if request.isolation_level == 1 else p.end
                elif wanted.timestamp == -2:
                    result.offset = p.start
                else:
                    found = next((r for r in p.records() if r.timestamp >= wanted.timestamp), None)
                    if found is not None:
                        result.offset, result.timestamp = found.offset, found.timestamp
        return answer

    async def OffsetsForLeaderEpoch(self, request: Any, context: Any) -> Any:
        self.calls.append("OffsetsForLeaderEpoch")
        await self.awake.wait()
        answer = fetch_pb2.OffsetsForLeaderEpochResponse()
        for topic in request.topics:
            results = answer.topics.add(topic_id=topic.topic_id)
            for wanted in topic.partitions:
                p = self.cluster.find(topic.topic_id, wanted.partition)
                result = results.partitions.add(
                    partition=wanted.partition, leader_epoch=-1, end_offset=-1
                )
                if p is None:
                    result.error_code = errors.UnknownTopicId.code
                    continue
                result.error_code = self._epoch_error(p, wanted.current_leader_epoch)
                result.leader_epoch, result.end_offset = p.end_offset_for(wanted.leader_epoch)
        return answer


@asynccontextmanager
async def scripted_cluster(brokers: int = 3) -> AsyncIterator[ScriptedCluster]:
    """A running cluster of so many scripted brokers, ids 1 and up."""
    cluster = ScriptedCluster()
    for broker_id in range(1, brokers + 1):
        broker = cluster.brokers[broker_id] = ScriptedBroker(cluster, broker_id)
        await broker.start()
    try:
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            broker.resume()
            await broker.stop()
