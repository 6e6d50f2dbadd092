"""Transactions on real processes, request by request: leaders verify, coordinators send markers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import grpc

from strandline_proto import errors
from strandline_proto.errors import NONE
from strandline_proto.java_hash import partition_for
from strandline_proto.v1 import metadata_pb2, produce_pb2, transactions_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from support.raw import where_is
from support.scripted_verifier import transactional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_local.local_cluster import LocalCluster

DEADLINE_S = 60.0
PARTITIONS = 6
NAME = "pay"
STATE = "__transaction_state"
RETRIED = {c.code for c in errors.ERRORS.values() if c.retriable} | {errors.NotCoordinator.code}


class Rig:
    """One producer that asks the right brokers, as often as it takes."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.producer_id = self.epoch = -1
        with grpc.insecure_channel(cluster.address(1)) as channel:
            request = metadata_pb2.CreateTopicsRequest(timeout_ms=30_000)
            request.topics.add(name=topic, partitions=PARTITIONS, replication_factor=3)
            answer = BrokerServiceStub(channel).CreateTopics(request, timeout=DEADLINE_S)
        assert [each.error_code for each in answer.topics] == [NONE], answer

    def address(self) -> str:
        alive = [each for each in self.cluster.alive() if isinstance(each, int)]
        return self.cluster.address(alive[0])

    def leader(self, topic: str, partition: int) -> int:
        return where_is(self.address(), topic, partition).leader

    def coordinator(self) -> int:
        request = metadata_pb2.MetadataRequest(only_named=True)
        request.topics.add(name=STATE)
        with grpc.insecure_channel(self.address()) as channel:
            (found,) = BrokerServiceStub(channel).Metadata(request, timeout=DEADLINE_S).topics
        if not found.partitions:
            raise ValueError("the topic is not made yet")
        return self.leader(STATE, partition_for(NAME, len(found.partitions)))

    def ask(self, call: str, request: Any, where: Any) -> Any:
        """The answer that is no error to try again, of the broker that `where` names then."""
        until_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < until_s:
            try:
                broker = where()
                with grpc.insecure_channel(self.cluster.address(broker)) as channel:
                    stub = BrokerServiceStub(channel)
                    if call == "Produce":
                        answer = next(iter(stub.Produce(_one(request), timeout=20)))
                        code = answer.topics[0].partitions[0].error_code
                    else:
                        answer = getattr(stub, call)(request, timeout=20)
                        code = answer.error_code
            except (grpc.RpcError, ValueError):
                code = errors.NetworkException.code
            if code not in RETRIED:
                return answer
            time.sleep(0.05)
        raise AssertionError(f"{call} found nobody")

    def init(self) -> None:
        request = metadata_pb2.InitProducerIdRequest(
            transactional_id=NAME, timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        answer = self.ask("InitProducerId", request, self.coordinator)
        assert answer.error_code == NONE, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def produce(self, partition: int, *, sequence: int = 0, epoch: int | None = None) -> int:
        request = produce_pb2.ProduceRequest(acks=-1, timeout_ms=20_000, transactional_id=NAME)
        batch = transactional(
            sequence,
            b"v",
            producer_id=self.producer_id,
            epoch=self.epoch if epoch is None else epoch,
        )
        topic_id = where_is(self.address(), self.topic, partition).topic_id
        request.topics.add(topic_id=topic_id).partitions.add(index=partition, records=batch)
        answer = self.ask("Produce", request, lambda: self.leader(self.topic, partition))
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def end(self, *, commit: bool) -> int:
        request = transactions_pb2.EndTxnRequest(
            transactional_id=NAME,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self.ask("EndTxn", request, self.coordinator)
        if answer.error_code == NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        code: int = answer.error_code
        return code

    def open_transactions(self) -> list[int]:
        """The partitions in which the producer has an open transaction."""
        found = []
        for partition in range(PARTITIONS):
            where = where_is(self.address(), self.topic, partition)
            request = transactions_pb2.DescribeProducersRequest()
            request.topics.add(topic_id=where.topic_id, partitions=[partition])
            with grpc.insecure_channel(self.cluster.address(where.leader)) as channel:
                stub = BrokerServiceStub(channel)
                answer = stub.DescribeProducers(request, timeout=DEADLINE_S)
            (described,) = answer.topics[0].partitions
            assert described.error_code == NONE, described
            if any(each.current_txn_start_offset >= 0 for each in described.active_producers):
                found.append(partition)
        return found

    def until_none_is_open(self) -> None:
        until_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                left: object = self.open_transactions()
            except (grpc.RpcError, ValueError, AssertionError) as error:
                left = error
            if left == []:
                return
            assert time.monotonic() < until_s, left
            time.sleep(0.05)


def _one(request: produce_pb2.ProduceRequest) -> Iterator[produce_pb2.ProduceRequest]:
    yield request
    time.sleep(0)


def test_transactions_end_in_each_partition_whoever_dies(cluster: LocalCluster) -> None:
    rig = Rig(cluster, "transfers")
    rig.init()
    began = rig.epoch
    for sequence in (0, 1):
        assert [rig.produce(i, sequence=sequence) for i in range(PARTITIONS)] == [NONE] * PARTITIONS
    assert rig.open_transactions() == list(range(PARTITIONS))
    assert rig.end(commit=True) == NONE
    assert rig.epoch == began + 1
    assert [rig.produce(i) for i in range(PARTITIONS)] == [NONE] * PARTITIONS, "the next one"
    killed = rig.leader("transfers", 0)
    assert rig.end(commit=False) == NONE
    cluster.kill(killed)
    rig.until_none_is_open()
    assert [rig.produce(i) for i in range(PARTITIONS)] == [NONE] * PARTITIONS
    cluster.start(killed)
    coordinator = rig.coordinator()
    assert rig.end(commit=True) == NONE
    cluster.kill(coordinator)
    rig.until_none_is_open()
    cluster.start(coordinator)
    assert rig.produce(0, epoch=rig.epoch - 1) in (47, 90), "an epoch that has ended"
    old = rig.producer_id, rig.epoch
    assert rig.produce(1) == NONE
    rig.init()
    assert rig.epoch > old[1] or rig.producer_id != old[0]
    rig.until_none_is_open()
