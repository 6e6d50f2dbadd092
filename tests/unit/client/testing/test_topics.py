"""The stock of topics: created in batches ahead of use, each used once, deleted in batches."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from strandline.testing import topics
from strandline.testing.topics import BATCH, LOW, TopicPool
from strandline_local.errors import ClusterError
from support.cluster import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Cluster:
    def __init__(self, failures: int = 0) -> None:
        self.batches: list[list[str]] = []
        self.deleted: list[str] = []
        self._failures = failures
        self.lock = threading.Lock()

    def create(self, names: Sequence[str]) -> None:
        with self.lock:
            if self._failures > 0:
                self._failures -= 1
                raise ClusterError("two of three brokers are dead")
            self.batches.append(list(names))

    def delete(self, names: Sequence[str]) -> None:
        self.deleted += names


@contextmanager
def pool_of(cluster: Cluster) -> Iterator[TopicPool]:
    pool = TopicPool(cluster.create, cluster.delete, prefix="p")
    pool.start()
    try:
        yield pool
    finally:
        pool.close()


def test_each_topic_is_given_once_and_batches_are_ahead() -> None:
    cluster = Cluster()
    with pool_of(cluster) as pool:
        taken = [pool.take() for _ in range(3 * BATCH)]
        eventually(lambda: len(pool.left) >= LOW, "the stock is full again")
    assert len(set(taken)) == 3 * BATCH
    assert {len(batch) for batch in cluster.batches} == {BATCH}
    assert set(taken) <= {name for batch in cluster.batches for name in batch}


def test_used_topics_are_deleted_in_batches() -> None:
    cluster = Cluster()
    with pool_of(cluster) as pool:
        taken = [pool.take() for _ in range(BATCH)]
        for name in taken:
            pool.give_back(name)
        eventually(lambda: set(cluster.deleted) == set(taken), "the used topics are deleted")
        assert set(pool.left).isdisjoint(taken)


def test_a_failed_batch_is_tried_again_under_other_names() -> None:
    cluster = Cluster(failures=1)
    with pool_of(cluster) as pool:
        assert pool.take() == f"p-{BATCH + 1}"


def test_a_failure_that_stays_is_named() -> None:
    with (
        pool_of(Cluster(failures=1 << 30)) as pool,
        pytest.raises(ClusterError, match=r"no topic .* within 0\.5 s \(two of three brokers"),
    ):
        pool.take(timeout_s=0.5)


def test_nothing_is_created_while_a_test_breaks_the_cluster_unless_a_test_waits() -> None:
    cluster = Cluster()
    pool = TopicPool(cluster.create, cluster.delete, prefix="p")
    pool.hold(True)
    pool.start()
    assert pool.take() == "p-1"  # it waits, so a batch is created
    for _ in range(BATCH - 1):
        pool.take()
    assert len(cluster.batches) == 1, "the stock is empty, and no test waits"
    pool.hold(False)
    eventually(lambda: len(cluster.batches) >= 2, "the stock is filled again")
    pool.close()


def test_spare_topics_are_those_that_no_running_test_uses() -> None:
    with pool_of(Cluster()) as pool:
        name = pool.take()
        assert not pool.has_spare(name)
        assert pool.has_spare("p-16")
        assert not pool.has_spare("other")
        pool.give_back(name)
        assert pool.has_spare(name)


def test_a_closed_stock_gives_no_topic() -> None:
    pool = TopicPool(Cluster().create, Cluster().delete, prefix="p")
    pool.close()
    with pytest.raises(ClusterError, match="no topic could be created"):
        pool.take()


def test_a_machine_without_a_free_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "port_is_free", lambda host, port: (host, port) != ("127.0.0.1", 0))
    pool = TopicPool(Cluster().create, Cluster().delete, prefix="p")
    pool.close()
    with pytest.raises(ClusterError, match=r"no port is left .* widen net\.ipv4"):
        pool.take()
