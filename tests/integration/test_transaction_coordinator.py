"""Transactions on real processes, over raw calls: a coordinator, leaders, and their deaths."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from strandline_proto.v1 import metadata_pb2
from support.raw_transactions import RawProducer, Refused, Transactions, stub_at

if TYPE_CHECKING:
    from strandline_local.local_cluster import LocalCluster
    from support.cluster import MakeCluster

TOPIC = "payments"


def make_topic(cluster: LocalCluster, name: str, *, partitions: int = 1, replicas: int = 3) -> None:
    request = metadata_pb2.CreateTopicsRequest(timeout_ms=30_000)
    request.topics.add(name=name, partitions=partitions, replication_factor=replicas)
    with stub_at(cluster.address(1)) as stub:
        (made,) = stub.CreateTopics(request).topics
    assert made.error_code == 0, made


def test_transactions_from_init_to_end_and_who_is_fenced(cluster: LocalCluster) -> None:
    make_topic(cluster, TOPIC, partitions=2)
    txn = Transactions(cluster)
    first = txn.init("mover")
    txn.produce("mover", first, TOPIC, b"a", b"b")
    txn.produce("mover", first, TOPIC, b"c", partition=1)
    assert txn.end_offset(TOPIC, committed=True) == 0, "nothing above an open transaction"
    assert txn.end_offset(TOPIC, committed=False) == 2
    assert txn.listed(state_filters=["Ongoing"]) == {"mover": "Ongoing"}
    described = txn.describe("mover")
    assert sorted(p for topic in described.topics for p in topic.partitions) == [0, 1]
    second = txn.end("mover", first)
    assert second == (first.producer_id, first.producer_epoch + 1)
    assert txn.end("mover", first) == second, "the repeated commit has the same answer"
    txn.until_state("mover", "CompleteCommit")
    assert txn.read_committed(TOPIC) == [b"a", b"b"]
    assert txn.read_committed(TOPIC, partition=1) == [b"c"]

    txn.produce("mover", second, TOPIC, b"aborted")
    third = txn.end("mover", second, commit=False)
    txn.produce("mover", third, TOPIC, b"open when it is fenced")
    taker = txn.init("mover")
    assert taker.producer_epoch == third.producer_epoch + 2
    for call in (
        lambda: txn.end("mover", third),
        lambda: txn.produce("mover", third, TOPIC, b"late", sequence=1),
        lambda: txn.init("mover", third),
    ):
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.code in (47, 90), refused.value
    txn.produce("mover", taker, TOPIC, b"d")
    txn.end("mover", taker)
    txn.until_state("mover", "CompleteCommit")
    assert txn.read_committed(TOPIC) == [b"a", b"b", b"d"]
    assert txn.end_offset(TOPIC, committed=True) == txn.end_offset(TOPIC, committed=False)


def test_a_transaction_past_its_timeout_is_aborted(cluster: LocalCluster) -> None:
    make_topic(cluster, "forgotten")
    txn = Transactions(cluster)
    producer = txn.init("forgetful", timeout_ms=500)
    txn.produce("forgetful", producer, "forgotten", b"never")
    txn.until_state("forgetful", "CompleteAbort")
    with pytest.raises(Refused) as refused:
        txn.end("forgetful", producer)
    assert refused.value.code == 90
    assert txn.read_committed("forgotten") == []
    following = txn.end("forgetful", producer, commit=False)
    txn.produce("forgetful", following, "forgotten", b"again")
    txn.end("forgetful", following)
    txn.until_state("forgetful", "CompleteCommit")
    assert txn.read_committed("forgotten") == [b"again"]


def test_a_refused_call_says_why(cluster: LocalCluster) -> None:
    txn = Transactions(cluster)
    producer = txn.init("wrong")
    for call, code, why in (
        (lambda: txn.end("wrong", producer), 48, "in state Empty"),
        (lambda: txn.init("wrong", timeout_ms=900_001), 50, "from 1 to 900000"),
        (lambda: txn.init(""), 42, "the transactional id is empty"),
        (lambda: txn.init("x" * 32_768), 42, "32767 are the most"),
        (lambda: txn.end("unknown", producer), 49, "is not known"),
        (lambda: txn.describe("unknown"), 105, "there is no transactional id"),
        (lambda: txn.init("wrong", RawProducer(7, 0)), 90, "another producer"),
    ):
        with pytest.raises(Refused, match=why) as refused:
            call()
        assert refused.value.code == code


def test_a_coordinator_that_dies_between_the_decision_and_its_markers(
    make_cluster: MakeCluster,
) -> None:
    """Golden histories 30 and 35 with processes: the partition's leader is down at the decision,
    so that no marker can be written before the coordinator dies.
    """
    cluster = make_cluster(brokers=3)
    make_topic(cluster, TOPIC, partitions=3, replicas=1)
    txn = Transactions(cluster)
    name = "survivor"
    coordinator = txn.coordinator(name).node_id
    partition, leader = next(
        (index, at.leader)
        for index in range(3)
        if (at := txn.where(TOPIC, index)).leader != coordinator
    )
    producer = txn.init(name)
    txn.produce(name, producer, TOPIC, b"kept", partition=partition)
    cluster.kill(leader)
    following = txn.end(name, producer)
    assert txn.describe(name).state == "PrepareCommit"
    cluster.kill(coordinator)
    cluster.start(coordinator)
    assert txn.describe(name).state == "PrepareCommit"
    time.sleep(1.0)  # its markers wait: a partition without a leader is no deleted one (P-126)
    assert txn.describe(name).state == "PrepareCommit"
    cluster.start(leader)
    txn.until_state(name, "CompleteCommit")
    assert txn.end(name, producer) == following
    assert txn.read_committed(TOPIC, partition=partition) == [b"kept"]
    txn.produce(name, following, TOPIC, b"next", partition=partition)
    txn.end(name, following)
    txn.until_state(name, "CompleteCommit")
    assert txn.read_committed(TOPIC, partition=partition) == [b"kept", b"next"]
