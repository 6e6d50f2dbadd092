"""Transactions through the command line, on real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strandline import sync
from strandline.testing import LocalCluster
from support.cluster import eventually
from support.command import CompletedCommand, strandline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline.testing import RunningCluster

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with LocalCluster(brokers=3, config={"num.partitions": 1}) as running:
        yield running


def run(cluster: RunningCluster, *words: object, stdin: str = "") -> CompletedCommand:
    return strandline(*words, "--bootstrap", cluster.bootstrap, stdin=stdin)


def shown(cluster: RunningCluster, *words: object) -> Any:
    return run(cluster, *words, "--format", "json").json


def test_lines_are_sent_in_transactions_and_read_by_their_isolation_level(
    cluster: RunningCluster,
) -> None:
    cluster.create_topic("lines")
    words = ("produce", "lines", "--transactional-id", "cli", "--transaction-size", 2)
    assert run(cluster, *words, stdin="a\nb\nc\n").status == 0
    with sync.Producer(cluster.bootstrap, transactional_id="open") as producer:
        producer.begin_transaction()
        producer.send_and_wait("lines", b"d")
        read = ("consume", "lines", "--from-beginning", "-e", "--isolation-level")

        def committed() -> list[str]:
            return run(cluster, *read, "read_committed").out.splitlines()

        eventually(lambda: committed() == ["a", "b", "c"], "the markers are there")
        everything = run(cluster, *read, "read_uncommitted").out.splitlines()
        assert everything == ["a", "b", "c", "d"]
        listed = shown(cluster, "transaction", "list", "--state", "Ongoing")
        assert [each["transactional_id"] for each in listed] == ["open"]
        described = shown(cluster, "transaction", "describe", "open")
        assert described["state"] == "Ongoing"
        assert described["partitions"] == ["lines:0"]
        assert shown(cluster, "transaction", "find-hanging", "--topic", "lines") == []
        refused = run(
            cluster, "transaction", "abort", "--topic", "lines", "-p", 0, "--start-offset", 1
        )
        assert refused.status == 1
        assert "no transaction of lines:0 begins at offset 1: open ones begin at" in refused.err
        producer.abort_transaction()
    assert run(cluster, "transaction", "describe", "no-such-id").status == 1
