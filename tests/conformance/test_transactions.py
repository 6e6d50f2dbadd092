"""Transactions beyond one client: Apache Kafka's tool, and an id that passes between clients."""

from __future__ import annotations

import re
import time
from base64 import b64decode
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from conformance.harness.clients import client
from conformance.harness.driver import DriverError
from conformance.harness.records import numbered
from conformance.harness.results import recorded
from conformance.harness.tools import TOOLS, Tools
from conformance.harness.transactions import FENCED_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.harness.driver import Driver
    from conformance.harness.targets import Target

COMMAND = f"{TOOLS}.TransactionsCommand"
SEEN_S = 40.0
LIVES = ("java-4.4.0", "confluent-kafka", "strandline", "java-3.9.2")


@pytest.fixture
def driver(target: Target) -> Iterator[Driver]:
    started = client("confluent-kafka").start(target.bootstrap)
    yield started
    started.close()


def read(driver: Driver, topic: str, *, committed: bool) -> list[str]:
    answer = driver.call(
        "read", topic=topic, partitions=[0, 1, 2], wait_s=SEEN_S, committed=committed
    )
    return sorted(b64decode(each["key"]).decode() for each in answer["records"])


def until_read(driver: Driver, topic: str, keys: list[str], *, committed: bool) -> None:
    deadline = time.monotonic() + SEEN_S
    while (found := read(driver, topic, committed=committed)) != sorted(keys):
        assert time.monotonic() < deadline, f"{found}, not {sorted(keys)}"
        time.sleep(0.1)


def keys_of(name: str) -> list[str]:
    return [b64decode(each["key"]).decode() for each in numbered(name, 6)]


def test_kafka_transactions(target: Target, driver: Driver) -> None:
    """The tool shows an open transaction by its id and by its partition, and aborts it."""
    topic, tools = "tool-transactions", Tools(target.bootstrap)
    of_partition = ("--topic", topic, "--partition", "0")
    driver.call("create_topic", topic=topic, partitions=3, replication=3)
    driver.call("tx_open", name="open", transactional_id="tool-id")
    driver.call("tx_send", name="open", topic=topic, records=numbered("open", 6))
    until_read(driver, topic, keys_of("open"), committed=False)
    with recorded("tools", "kafka-transactions", "list"):
        row = next(each for each in tools.run(COMMAND, "list").splitlines() if "tool-id" in each)
        assert row.split()[-1] == "Ongoing", row
        producer_id = row.split()[2]
    with recorded("tools", "kafka-transactions", "describe"):
        shown = tools.run(COMMAND, "describe", "--transactional-id", "tool-id")
        assert all(f"{topic}-{each}" in shown for each in range(3)), shown
        assert "Ongoing" in shown, shown
    with recorded("tools", "kafka-transactions", "describe-producers"):
        shown = tools.run(COMMAND, "describe-producers", *of_partition)
        found = _last_row(shown)
        assert found["ProducerId"] == producer_id, shown
        assert found["CurrentTransactionStartOffset"] == "0", shown
    with recorded("tools", "kafka-transactions", "find-hanging"):
        # The coordinator knows the transaction, so that none hangs.
        shown = tools.run(
            COMMAND, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0"
        )
        assert not re.search(rf"^{topic}\s", shown, re.MULTILINE), shown
    with recorded("tools", "kafka-transactions", "abort"):
        tools.run(COMMAND, "abort", *of_partition, "--start-offset", "0")
        shown = tools.run(COMMAND, "describe-producers", *of_partition)
        found = _last_row(shown)
        assert found["CurrentTransactionStartOffset"] == "None", shown
    driver.call("tx_end", name="open", commit=False)


def _last_row(printed: str) -> dict[str, str]:
    """The last row of a table by the headings of its columns."""
    headings, row = (each.split() for each in printed.strip().splitlines()[-2:])
    return dict(zip(headings, row, strict=True))


def test_a_transactional_id_passes_between_clients(target: Target, driver: Driver) -> None:
    """Each client commits, leaves a transaction open, and is fenced by the next one."""
    topic, committed = "passed-id", list[str]()
    driver.call("create_topic", topic=topic, partitions=3, replication=3)
    lives = [name for name in LIVES if client(name).only_on in (None, target.name)]
    with (
        recorded("groups", "java, librdkafka, strandline", "one transactional id"),
        ExitStack() as stack,
    ):
        previous: Driver | None = None
        for name in lives:
            now = client(name).start(target.bootstrap)
            stack.callback(now.close)
            now.call("tx_open", name="life", transactional_id="passed-id")
            now.call("tx_send", name="life", topic=topic, records=numbered(f"{name}-done", 6))
            now.call("tx_end", name="life", commit=True)
            committed += keys_of(f"{name}-done")
            if previous is not None:
                with pytest.raises(DriverError) as refused:
                    previous.call("tx_end", name="life", commit=True)
                assert any(each in str(refused.value).lower() for each in FENCED_WORDS)
            now.call("tx_send", name="life", topic=topic, records=numbered(f"{name}-lost", 6))
            previous = now
        assert previous is not None
        previous.call("tx_end", name="life", commit=False)
        until_read(driver, topic, committed, committed=True)
