"""Transactions that no coordinator will end, on a real broker: an operator sees and ends them.

No client can make one: the leader verifies each batch with the coordinator. The batches are
appended while the broker is down, as a leader without verification would have written them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from strandline import NewTopic, TopicPartition, sync
from strandline_broker.storage.directory.directory import DataDirectory
from strandline_proto.batch import read_header
from strandline_runtime.real import RealFileSystem
from support.cluster import eventually
from support.command import CompletedCommand, strandline
from support.producer_log import transactional_batch
from support.storage import LARGE

if TYPE_CHECKING:
    from strandline.transaction_types import ProducerDescription
    from strandline_local.local_cluster import LocalCluster
    from support.cluster import MakeCluster

pytestmark = pytest.mark.integration

TOPIC = "lines"
PLACE = TopicPartition(TOPIC, 0)
KNOWN = "payments-1"
STRANGER = 987_654
"""A producer id that no coordinator has given."""
HOUR_MS = 3_600_000


def run(cluster: LocalCluster, *words: object) -> CompletedCommand:
    return strandline(*words, "--bootstrap", cluster.bootstrap)


def shown(cluster: LocalCluster, *words: object) -> Any:
    return run(cluster, "transaction", *words, "--format", "json").json


def read(cluster: LocalCluster, isolation: str) -> list[str]:
    options = ("consume", TOPIC, "--from-beginning", "-e", "--isolation-level", isolation)
    return run(cluster, *options).out.splitlines()


def commit(cluster: LocalCluster, value: bytes) -> None:
    with sync.Producer(cluster.bootstrap, transactional_id=KNOWN) as producer:
        producer.begin_transaction()
        producer.send_and_wait(TOPIC, value, partition=0)
        producer.commit_transaction()


def remembered(cluster: LocalCluster) -> ProducerDescription:
    """The producer of the committed transaction, once its marker is there."""
    with sync.Admin(cluster.bootstrap) as admin:

        def closed() -> ProducerDescription | None:
            (found,) = admin.describe_producers([PLACE])[PLACE]
            return found if found.transaction_start_offset is None else None

        return eventually(closed, "the marker is there")


def append_offline(cluster: LocalCluster, *batches: bytes) -> list[int]:
    """Appends to the partition of a broker that is down; the first offset of each batch."""
    path = str(cluster.data_directory(1))
    directory = DataDirectory.open(
        RealFileSystem(), path, node_id=1, cluster_id=None, new_id=lambda: b"?" * 16
    )
    try:
        (found,) = [each for each in directory.partitions() if each.topic == TOPIC]
        log = directory.load_log(found, LARGE, lambda _: None)
        epoch = log.leader_epochs.latest()
        offsets = [
            log.append_as_leader(batch, read_header(batch), leader_epoch=epoch).base_offset
            for batch in batches
        ]
        log.close()
        return offsets
    finally:
        directory.close()


@pytest.fixture
def hanging(make_cluster: MakeCluster) -> tuple[LocalCluster, list[int]]:
    """A broker with a committed record, two open transactions that no coordinator knows, and a
    record behind them; the first offsets of the two.
    """
    cluster = make_cluster(brokers=1)
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
    commit(cluster, b"before")
    known = remembered(cluster)
    cluster.stop(1)
    long_ago = int(time.time() * 1000) - HOUR_MS
    lost = transactional_batch(
        known.producer_id, b"lost", producer_epoch=known.producer_epoch, timestamp_ms=long_ago
    )
    strange = transactional_batch(STRANGER, b"strange", timestamp_ms=long_ago)
    starts = append_offline(cluster, lost, strange)
    cluster.start(1)
    with sync.Producer(cluster.bootstrap) as producer:
        producer.send_and_wait(TOPIC, b"behind", partition=0)
    return cluster, starts


def test_an_operator_finds_transactions_that_hang(
    hanging: tuple[LocalCluster, list[int]],
) -> None:
    cluster, starts = hanging
    (listed,) = shown(cluster, "list")
    assert (listed["transactional_id"], listed["state"]) == (KNOWN, "CompleteCommit")
    assert shown(cluster, "describe", KNOWN)["partitions"] == []
    assert read(cluster, "read_uncommitted") == ["before", "lost", "strange", "behind"]
    assert read(cluster, "read_committed") == ["before"]
    found = shown(cluster, "find-hanging", "--topic", TOPIC)
    named = [(each["start_offset"], each["transactional_id"]) for each in found]
    assert sorted(named) == list(zip(starts, (KNOWN, None), strict=True))
    assert shown(cluster, "find-hanging", "--topic", TOPIC, "--partition", 0) == found
    assert shown(cluster, "find-hanging", "--max-transaction-timeout", 2 * 3600) == []


def test_an_operator_aborts_transactions_that_hang(
    hanging: tuple[LocalCluster, list[int]],
) -> None:
    cluster, starts = hanging

    def abort(start: int) -> CompletedCommand:
        place = ("--topic", TOPIC, "-p", 0, "--start-offset", start)
        return run(cluster, "transaction", "abort", *place)

    with sync.Consumer(
        bootstrap_servers=cluster.bootstrap, isolation_level="read_committed"
    ) as waiting:
        waiting.assign([PLACE])
        waiting.seek(PLACE, starts[0])
        assert waiting.end_offsets([PLACE])[PLACE] == starts[0]
        assert abort(starts[0]).status == 0
        assert [each["start_offset"] for each in shown(cluster, "find-hanging")] == [starts[1]]
        assert waiting.end_offsets([PLACE])[PLACE] == starts[1]
        assert abort(starts[1]).status == 0
        assert waiting.getone(PLACE).value == b"behind"
    assert shown(cluster, "find-hanging") == []
    again = abort(starts[1])
    assert again.status == 1
    assert "no transaction is open there" in again.err

    # The id goes on, and aborted records stay hidden, also after a restart.
    commit(cluster, b"after")
    cluster.restart(1)
    eventually(
        lambda: read(cluster, "read_committed") == ["before", "behind", "after"],
        "only what is committed is read",
    )
