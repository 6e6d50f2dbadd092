"""Records that one client writes are the same bytes for every other client."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from conformance.harness.clients import PLAIN_CODECS, all_clients, client
from conformance.harness.records import CODECS, PARTITIONS, Record, of_codec, same
from conformance.harness.results import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.harness.driver import Driver
    from conformance.harness.targets import Target

NAMES = [each.name for each in all_clients()]
WITHOUT_TIMESTAMPS = {"kcat"}
"""These clients stamp records with the time of the call."""


@pytest.fixture(scope="module")
def drivers(target: Target) -> Iterator[dict[str, Driver]]:
    """A driver of each client; topics of five codecs written by each."""
    with contextlib.ExitStack() as running:
        started = {}
        for each in all_clients():
            if each.only_on in (None, target.name):
                started[each.name] = each.start(target.bootstrap)
                running.callback(started[each.name].close)
        yield started


@pytest.fixture(scope="module")
def written(drivers: dict[str, Driver]) -> dict[str, list[Record]]:
    """The records of two topics of each client: in the codecs that it has, and in plain ones."""
    records: dict[str, list[Record]] = {}
    for name, driver in drivers.items():
        for topic, codecs in ((name, client(name).codecs), (f"plain-{name}", PLAIN_CODECS)):
            drivers["confluent-kafka"].call(
                "create_topic", topic=topic, partitions=PARTITIONS, replication=3
            )
            records[topic] = [each for codec in codecs for each in of_codec(codec)]
            for codec in codecs:
                driver.call("produce", topic=topic, records=of_codec(codec), codec=codec)
    return records


@pytest.mark.parametrize("reader", NAMES)
@pytest.mark.parametrize("writer", NAMES)
def test_every_client_reads_what_every_client_wrote(
    drivers: dict[str, Driver], written: dict[str, list[Record]], writer: str, reader: str
) -> None:
    if not {writer, reader} <= drivers.keys():
        pytest.skip("Strandline's own client speaks to Strandline only")
    with recorded("cross reading", writer, f"read by {reader}"):
        topic = writer if client(reader).codecs == CODECS else f"plain-{writer}"
        partitions = list(range(PARTITIONS))
        got = drivers[reader].call("read", topic=topic, partitions=partitions, wait_s=40.0)
        same(got["records"], written[topic], timed=writer not in WITHOUT_TIMESTAMPS)
