"""A compacted topic on real processes: the state at its end is the producers', whoever dies."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from strandline import NewTopic, TopicPartition, errors
from strandline.sync import Admin, Consumer, Producer
from support.cluster import MakeCluster, eventually

if TYPE_CHECKING:
    from strandline_local.local_cluster import LocalCluster

TOPIC = "accounts"
KEYS = 40
State = dict[bytes | None, bytes | None]

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "4000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "flush.ms": "50",
    "file.delete.delay.ms": "100",
}
QUICK = {
    "log.cleaner.backoff.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "200",
}


def begin(make_cluster: MakeCluster) -> LocalCluster:
    cluster = make_cluster(brokers=3, broker_config=QUICK)
    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=3, config=COMPACTED)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([topic])
    return cluster


class Writer:
    """Random puts and deletes, each acknowledged, and the state they lead to."""

    def __init__(self, cluster: LocalCluster, seed: int = 1) -> None:
        self._cluster = cluster
        self._rng = random.Random(seed)
        self.state: State = {}

    def write(self, count: int) -> None:
        with Producer(self._cluster.bootstrap) as producer:
            for _ in range(count):
                key = b"account-%d" % self._rng.randrange(KEYS)
                value = None if self._rng.random() < 0.2 else self._rng.randbytes(30)
                producer.send(TOPIC, value, key=key, partition=0)
                if value is None:
                    self.state.pop(key, None)
                else:
                    self.state[key] = value
            producer.flush()


def read(cluster: LocalCluster) -> tuple[State, int]:
    """(the state at the end, how many records led to it), read from the beginning."""
    state: State = {}
    partition, seen, last = TopicPartition(TOPIC, 0), 0, -1
    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            batches = consumer.getmany(timeout_ms=10_000)
            for record in (r for records in batches.values() for r in records):
                assert record.offset > last, "I-68"
                seen, last = seen + 1, record.offset
                if record.value is None:
                    state.pop(record.key, None)
                else:
                    state[record.key] = record.value
    return state, seen


def leader_of(cluster: LocalCluster) -> int:
    with Admin(cluster.bootstrap) as admin:
        return admin.describe_topics([TOPIC])[TOPIC].partitions[0].leader


def kill_leader(cluster: LocalCluster) -> int:
    """Another one leads on return."""
    leader = leader_of(cluster)
    cluster.kill(leader)
    eventually(lambda: leader_of(cluster) not in (leader, -1), "another leader")
    return leader


@pytest.mark.parametrize(
    ("kills", "kills_when_compacted"), [(1, 1), pytest.param(3, 2, marks=pytest.mark.proof)]
)
def test_a_reader_from_the_start_has_the_last_values_although_leaders_are_killed(
    make_cluster: MakeCluster, kills: int, kills_when_compacted: int
) -> None:
    cluster = begin(make_cluster)
    writer = Writer(cluster)
    written = 0
    for part in range(3):
        writer.write(500)
        killed = leader_of(cluster) if part < kills else None
        if killed is not None:
            cluster.kill(killed)
        writer.write(200)
        written += 700
        assert read(cluster)[0] == writer.state
        if killed is not None:
            cluster.start(killed)
    eventually(lambda: read(cluster)[1] < written // 4, "the log is compacted")
    # Replicas compact at times of their own (I-77), and each says the same.
    for _ in range(kills_when_compacted):
        eventually(lambda: is_in_sync(cluster), "all replicas are in sync")
        killed = kill_leader(cluster)
        assert read(cluster)[0] == writer.state
        cluster.start(killed)


def is_in_sync(cluster: LocalCluster) -> bool:
    with Admin(cluster.bootstrap) as admin:
        return len(admin.describe_topics([TOPIC])[TOPIC].partitions[0].isr) == 3


def test_a_deleted_key_is_gone_from_the_log_after_its_time(make_cluster: MakeCluster) -> None:
    cluster = begin(make_cluster)
    with Producer(cluster.bootstrap) as producer:
        producer.send_and_wait(TOPIC, b"first", key=b"doomed", partition=0)
        producer.send_and_wait(TOPIC, None, key=b"doomed", partition=0)
    writer = Writer(cluster)

    def keys() -> set[bytes | None]:
        writer.write(30)
        found: set[bytes | None] = set()
        partition = TopicPartition(TOPIC, 0)
        with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek_to_beginning()
            end = consumer.end_offsets([partition])[partition]
            while consumer.position(partition) < end:
                for records in consumer.getmany(timeout_ms=10_000).values():
                    found |= {r.key for r in records}
        return found

    assert b"doomed" in keys(), "the tombstone is to be seen first"
    eventually(lambda: b"doomed" not in keys(), "the tombstone is gone")


def test_a_record_without_a_key_is_refused_with_the_remedy(make_cluster: MakeCluster) -> None:
    cluster = begin(make_cluster)
    with (
        Producer(cluster.bootstrap) as producer,
        pytest.raises(errors.InvalidRecord, match=r"needs a key in every record.*give it a key"),
    ):
        producer.send_and_wait(TOPIC, b"value", partition=0)
