"""A transactional producer of Kafka frames in the first variant of transactions (TV1), as
librdkafka speaks: it adds partitions by itself, and its epoch stays the same over transactions.

A request without an answer may be carried out late, and would then end the next transaction of the
same epoch (P-105). So after one the producer takes a new epoch before it goes on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiokafka.record._crecords import DefaultRecordBatchBuilder

from strandline.errors import from_code
from strandline_proof.sim.kafka.connection import (
    KafkaCluster,
    KafkaFailed,
    check,
    owned_tasks,
    request_of,
)
from strandline_proof.sim.topology.transactions import LEDGER
from strandline_proof.sim.transactions.ledger import ABORTED, UNKNOWN, Producer
from strandline_proof.sim.transactions.teller import (
    ABORTS,
    PAUSE_S,
    RECORDS,
    REST_S,
    RETRY_S,
    ROUNDS,
    SLEEPS,
)
from strandline_proto.batch import MAGIC

if TYPE_CHECKING:
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.kafka.connection import KafkaConnection
    from strandline_proof.sim.transactions.ledger import Attempt
    from strandline_runtime.runtime import Runtime

PATIENCE_S: Final = 3.0
AGAIN_S: Final = 0.05
TIMEOUT_MS: Final = 1000
TRANSACTION: Final = 1
"""Key type of a transactional id in FindCoordinator."""
PRODUCE: Final = (9, 10, 11)
"""Versions of Produce of the first variant."""
DUPLICATE: Final = 46


class KafkaTeller:
    """One life of the producer, with one epoch."""

    def __init__(self, world: World, name: str, runtime: Runtime, cluster: KafkaCluster) -> None:
        assert world.topology.transactions is not None
        self._transactions = world.topology.transactions
        self._ledger = world.ledger
        self._name = name
        self._runtime = runtime
        self._rng = runtime.rng
        self._cluster = cluster
        self._producer = Producer(-1, -1, False)
        self._sequences: dict[int, int] = {}
        self._was_unanswered = False

    async def run(self, stop: asyncio.Event) -> None:
        told = await self._asked(
            "InitProducerId",
            4,
            transactional_id=self._name,
            transaction_timeout_ms=self._transactions.timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        self._producer = Producer(told.producer_id, told.producer_epoch, False)
        self._was_unanswered = False
        self._ledger.opened(self._producer)
        for _ in range(self._rng.randint(*ROUNDS)):
            if stop.is_set() or self._was_unanswered:
                return
            await self._transaction()
            await asyncio.sleep(self._rng.uniform(*REST_S))

    async def _transaction(self) -> None:
        attempt = self._ledger.begin(self._name, self._producer)
        try:
            await self._send(attempt)
            is_commit = self._rng.random() >= ABORTS
            await self._asked("EndTxn", 3, committed=is_commit, **self._whose())
        except KafkaFailed:
            self._ledger.ended(attempt, UNKNOWN)
            raise
        if is_commit:
            self._ledger.committed(attempt)
            self._ledger.sometimes["transaction of Kafka's first variant committed"] += 1
        else:
            self._ledger.ended(attempt, ABORTED)

    def _whose(self) -> dict[str, Any]:
        return {
            "transactional_id": self._name,
            "producer_id": self._producer.producer_id,
            "producer_epoch": self._producer.epoch,
        }

    async def _send(self, attempt: Attempt) -> None:
        added: set[int] = set()
        for _ in range(self._rng.choice(RECORDS)):
            partition = self._rng.randrange(self._transactions.partitions)
            if partition not in added:
                await self._add(partition)
                added.add(partition)
            value = self._ledger.value(attempt, LEDGER, partition)
            attempt.acknowledged[value] = await self._produce(partition, value)
            await asyncio.sleep(self._rng.choice(PAUSE_S))
        if not added:
            raise AssertionError("a transaction without records")
        if self._rng.random() < SLEEPS:
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) * self._transactions.timeout_ms / 1000)

    async def _add(self, partition: int) -> None:
        kind = request_of("AddPartitionsToTxn").AddPartitionsToTxnTopic
        fields = {f"v3_and_below_{name}": value for name, value in self._whose().items()}
        topics = [kind(name=LEDGER, partitions=[partition])]
        await self._asked("AddPartitionsToTxn", 3, v3_and_below_topics=topics, **fields)

    # Requests to the coordinator

    async def _asked(self, name: str, version: int, **fields: Any) -> Any:
        """The answer of the coordinator, asked until it is no passing error. Raises KafkaFailed."""
        deadline_s = self._now_s() + PATIENCE_S
        while True:
            try:
                connection = await self._coordinator()
                told = await connection.call(name, version, **fields)
            except KafkaFailed as why:
                self._was_unanswered |= why.may_have_been_written
                if self._now_s() > deadline_s:
                    raise
            else:
                code = _code(told)
                if code == 0:
                    return told
                if not from_code(code).retriable or self._now_s() > deadline_s:
                    check(code, name)
            await asyncio.sleep(AGAIN_S)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _coordinator(self) -> KafkaConnection:
        connection = await self._cluster.any_broker()
        found = await connection.call("FindCoordinator", 2, key=self._name, key_type=TRANSACTION)
        check(found.error_code, "FindCoordinator")
        return await self._cluster.at(found.host, found.port)

    # Records

    async def _produce(self, partition: int, value: bytes) -> int:
        """Returns the record's offset; -1 if it was there already. Raises KafkaFailed."""
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + 1
        request = self._request(partition, self._batch(sequence, value))
        deadline_s = self._now_s() + PATIENCE_S
        version = self._rng.choice(PRODUCE)
        while True:
            try:
                connection = await self._cluster.leader(LEDGER, partition)
                told = await connection.call("Produce", version, **request)
            except KafkaFailed:
                self._was_unanswered = True
                if self._now_s() > deadline_s:
                    raise
            else:
                answer = told.responses[0].partition_responses[0]
                if answer.error_code in (0, DUPLICATE):
                    return answer.base_offset if answer.error_code == 0 else -1
                if not from_code(answer.error_code).retriable or self._now_s() > deadline_s:
                    check(answer.error_code, "Produce")
            self._cluster.forget_leaders(LEDGER)
            await asyncio.sleep(AGAIN_S)

    def _batch(self, sequence: int, value: bytes) -> bytes:
        builder = DefaultRecordBatchBuilder(
            magic=MAGIC,
            compression_type=0,
            is_transactional=1,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
            batch_size=1 << 20,
        )
        builder.append(0, int(self._runtime.clock.time() * 1000), None, value, [])
        return bytes(builder.build())

    def _request(self, partition: int, records: bytes) -> dict[str, Any]:
        kind = request_of("Produce").TopicProduceData
        data = [kind.PartitionProduceData(index=partition, records=records)]
        return {
            "transactional_id": self._name,
            "acks": -1,
            "timeout_ms": TIMEOUT_MS,
            "topic_data": [kind(name=LEDGER, partition_data=data)],
        }


def _code(told: Any) -> int:
    """The error of an answer; of AddPartitionsToTxn, that of its one partition."""
    topics = getattr(told, "results_by_topic_v3_and_below", None)
    if topics:
        code: int = topics[0].results_by_partition[0].partition_error_code
        return code
    return int(told.error_code or 0)


async def run_kafka_teller(world: World, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            async with owned_tasks() as tasks:
                cluster = KafkaCluster(runtime, world.topology.kafka_bootstrap, tasks)
                try:
                    await KafkaTeller(world, node.name, runtime, cluster).run(stop)
                finally:
                    cluster.close()
        except KafkaFailed as error:
            world.ledger.sometimes[f"Kafka's teller began again: {str(error)[:40]}"] += 1
            await asyncio.sleep(RETRY_S)
