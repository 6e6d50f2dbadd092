"""Transactions over raw gRPC calls: what a producer asks of coordinators and leaders, in one place.

Each call is tried again while the cluster is changing, as a client does, until its deadline.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from strandline_proto.batch import build_batch, iter_headers, read_records
from strandline_proto.errors import NONE, from_code
from strandline_proto.v1 import fetch_pb2, groups_pb2, metadata_pb2, produce_pb2, transactions_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from support.raw import DEADLINE_S, where_is

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline_local.local_cluster import LocalCluster

TRANSACTION = 1
POLL_S = 0.05


class RawProducer(NamedTuple):
    producer_id: int
    producer_epoch: int


class Refused(Exception):
    """An error that is no reason to try again."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@contextmanager
def stub_at(address: str) -> Iterator[Any]:
    with grpc.insecure_channel(address) as channel:
        yield BrokerServiceStub(channel)


class Transactions:
    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def until(self, call: Callable[[], Any]) -> Any:
        """The answer without an error that may pass. Raises Refused."""
        deadline = time.monotonic() + 2 * DEADLINE_S
        while True:
            try:
                answer = call()
                code, message = answer.error_code, answer.error_message
            except grpc.RpcError as error:
                code, message = -1, str(error)
            if code == NONE:
                return answer
            if code != -1 and not from_code(code, message).retriable:
                raise Refused(code, message)
            assert time.monotonic() < deadline, message
            time.sleep(POLL_S)

    def coordinator(self, name: str) -> groups_pb2.Coordinator:
        request = groups_pb2.FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[name])

        def call() -> Any:
            (broker, *_) = [each for each in self.cluster.alive() if isinstance(each, int)]
            with stub_at(self.cluster.address(broker)) as stub:
                return stub.FindCoordinator(request, timeout=DEADLINE_S).coordinators[0]

        found: groups_pb2.Coordinator = self.until(call)
        return found

    def _ask(self, name: str, method: str, request: Any) -> Any:
        def call() -> Any:
            found = self.coordinator(name)
            with stub_at(f"{found.host}:{found.port}") as stub:
                return getattr(stub, method)(request, timeout=DEADLINE_S)

        return self.until(call)

    def init(
        self, name: str, producer: RawProducer | None = None, *, timeout_ms: int = 60_000
    ) -> RawProducer:
        known = producer or RawProducer(-1, -1)
        request = metadata_pb2.InitProducerIdRequest(
            transactional_id=name,
            timeout_ms=timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
        )
        answer = self._ask(name, "InitProducerId", request)
        return RawProducer(answer.producer_id, answer.producer_epoch)

    def end(self, name: str, producer: RawProducer, *, commit: bool = True) -> RawProducer:
        request = transactions_pb2.EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=commit,
        )
        answer = self._ask(name, "EndTxn", request)
        return RawProducer(answer.producer_id, answer.producer_epoch)

    def describe(self, name: str) -> transactions_pb2.DescribedTransaction:
        request = transactions_pb2.DescribeTransactionsRequest(transactional_ids=[name])

        def call() -> Any:
            found = self.coordinator(name)
            with stub_at(f"{found.host}:{found.port}") as stub:
                return stub.DescribeTransactions(request, timeout=DEADLINE_S).transactions[0]

        described: transactions_pb2.DescribedTransaction = self.until(call)
        return described

    def listed(self, **filters: Any) -> dict[str, str]:
        """State by id, of the coordinators of all brokers."""
        found: dict[str, str] = {}
        request = transactions_pb2.ListTransactionsRequest(**{"duration_filter_ms": -1, **filters})
        for broker in self.cluster.alive():
            if isinstance(broker, int):
                with stub_at(self.cluster.address(broker)) as stub:
                    answer = stub.ListTransactions(request, timeout=DEADLINE_S)
                assert answer.error_code == NONE, answer
                found |= {each.transactional_id: each.state for each in answer.transactions}
        return found

    def until_state(self, name: str, state: str) -> None:
        deadline = time.monotonic() + 2 * DEADLINE_S
        while (found := self.describe(name).state) != state:
            assert time.monotonic() < deadline, found
            time.sleep(POLL_S)

    # Records

    def produce(
        self,
        name: str,
        producer: RawProducer,
        topic: str,
        *values: bytes,
        partition: int = 0,
        sequence: int = 0,
    ) -> int:
        """Appends one transactional batch; returns its first offset."""
        batch = build_batch(
            [(None, value) for value in values],
            timestamp_ms=1,
            is_transactional=True,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
        )
        request = produce_pb2.ProduceRequest(
            correlation_id=7, acks=-1, timeout_ms=10_000, transactional_id=name
        )

        def call() -> Any:
            at = self.where(topic, partition)
            request.ClearField("topics")
            request.topics.add(topic_id=at.topic_id).partitions.add(index=partition, records=batch)
            with stub_at(self.cluster.address(at.leader)) as stub:
                answers = stub.Produce(iter([request]), timeout=DEADLINE_S)
                return next(iter(answers)).topics[0].partitions[0]

        offset: int = self.until(call).base_offset
        return offset

    def where(self, topic: str, partition: int = 0) -> Any:
        (broker, *_) = [each for each in self.cluster.alive() if isinstance(each, int)]
        return where_is(self.cluster.address(broker), topic, partition)

    def end_offset(self, topic: str, *, committed: bool, partition: int = 0) -> int:
        request = fetch_pb2.ListOffsetsRequest(replica_id=-1, isolation_level=int(committed))

        def call() -> Any:
            at = self.where(topic, partition)
            request.ClearField("topics")
            asked = request.topics.add(topic_id=at.topic_id).partitions.add(
                partition=partition, timestamp=-1
            )
            asked.current_leader_epoch = -1
            with stub_at(self.cluster.address(at.leader)) as stub:
                answer = stub.ListOffsets(request, timeout=DEADLINE_S)
                return answer.topics[0].partitions[0]

        offset: int = self.until(call).offset
        return offset

    def read_committed(self, topic: str, *, partition: int = 0) -> list[bytes]:
        """The values of all records of committed transactions, as COORDINATION 5.7 filters them."""
        end = self.end_offset(topic, committed=True, partition=partition)
        if end == 0:
            return []
        at = self.where(topic, partition)
        request = fetch_pb2.FetchRangeRequest(
            topic_id=at.topic_id,
            partition=partition,
            current_leader_epoch=-1,
            start_offset=0,
            stop_offset=end,
            isolation_level=1,
            max_message_bytes=1 << 20,
        )
        with stub_at(self.cluster.address(at.leader)) as stub:
            answers = list(stub.FetchRange(request, timeout=DEADLINE_S))
        values: list[bytes] = []
        for answer in answers:
            assert answer.error_code == NONE, answer
            values += _committed(answer)
        return values


def _committed(answer: Any) -> Iterator[bytes]:
    waiting = sorted(answer.aborted_transactions, key=lambda each: each.first_offset)
    aborted: set[int] = set()
    for at, header in iter_headers(answer.records):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if header.is_control:
            (record,) = read_records(answer.records, at, header)
            if record.key == bytes(4):
                aborted.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in aborted:
            continue
        for record in read_records(answer.records, at, header):
            assert record.value is not None
            yield record.value
