"""A topic is there when each of its partitions has acknowledged a record: here, and in Kafka."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import Future
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from strandline_bench import options, partitions
from strandline_bench.peers import kafka as kafka_peer

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 4


class Clock:
    """One second for each call of a cluster."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class Cluster:
    """Takes a second to create a topic, and two more for each partition to serve. It says at once
    that all of them do.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.written: list[tuple[str, int]] = []

    async def create_topics(self, topics: list[Any]) -> None:
        self.clock.now_s += 1

    async def send_and_wait(self, topic: str, value: bytes, *, partition: int) -> None:
        await asyncio.sleep(0)
        self.clock.now_s += 2
        self.written.append((topic, partition))


async def test_ours_is_measured_by_the_first_record_of_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    cluster: Any = Cluster(clock)
    monkeypatch.setattr(partitions, "time", clock)
    chosen = options.parse(["partitions"])
    acks_s = await partitions.first_acks(cluster, cluster, "t", PARTITIONS, chosen)
    assert sorted(acks_s) == [3.0, 5.0, 7.0, 9.0]
    assert sorted(cluster.written) == [("t", n) for n in range(PARTITIONS)]
    assert partitions._created(acks_s) == {
        "partitions": PARTITIONS,
        "create_s": 9.0,
        "first_ack_s_p50": 6.0,
    }


class Producer:
    """Confluent's, of a Kafka that answers in `flush`."""

    clock: Clock
    refuses: int | None = None

    def __init__(self, config: dict[str, object]) -> None:
        self.config = config
        self._told: list[tuple[int, Callable[[object, object], None]]] = []

    def list_topics(self, timeout: float) -> None:
        self.clock.now_s += 50  # before the clock starts

    def produce(
        self, topic: str, value: bytes, partition: int, on_delivery: Callable[..., None]
    ) -> None:
        self._told.append((partition, on_delivery))

    def poll(self, timeout: float) -> None:
        """Nothing has come yet."""

    def flush(self, timeout: float) -> int:
        for partition, told in self._told:
            self.clock.now_s += 2
            told("refused" if partition == self.refuses else None, None)
        return 0


class AdminClient:
    def __init__(self, config: dict[str, object]) -> None:
        self.asked = config

    def create_topics(self, topics: list[Any], request_timeout: float) -> dict[str, Future[None]]:
        Producer.clock.now_s += 1
        done: Future[None] = Future()
        done.set_result(None)
        return dict.fromkeys(topics, done)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> kafka_peer.KafkaPeer:
    module: Any = ModuleType("confluent_kafka")
    admin: Any = ModuleType("confluent_kafka.admin")
    module.Producer, module.admin = Producer, admin
    admin.AdminClient, admin.NewTopic = AdminClient, lambda name, *_, **__: name
    monkeypatch.setitem(sys.modules, "confluent_kafka", module)
    monkeypatch.setitem(sys.modules, "confluent_kafka.admin", admin)
    monkeypatch.setattr(Producer, "clock", Clock(), raising=False)
    monkeypatch.setattr(kafka_peer, "time", Producer.clock)
    return kafka_peer.KafkaPeer("127.0.0.1:1", replication_factor=3)


def test_kafkas_is_measured_in_the_same_way(kafka: kafka_peer.KafkaPeer) -> None:
    assert kafka.first_acks(PARTITIONS, 2, "all") == [3.0, 5.0, 7.0, 9.0]


def test_a_record_that_kafka_refuses_is_no_figure(
    kafka: kafka_peer.KafkaPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producer, "refuses", 2)
    for ask in (
        lambda: kafka.first_acks(PARTITIONS, 2, "all"),
        lambda: kafka.write_each("t", PARTITIONS),
    ):
        with pytest.raises(TimeoutError, match=r"not acknowledged 1 records of .*: refused"):
            ask()
