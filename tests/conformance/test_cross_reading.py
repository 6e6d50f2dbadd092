"""Records that one client writes are the same bytes for every other client."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from conformance.harness.clients import all_clients, client
from conformance.harness.records import CODECS, PARTITIONS, of_codec, same
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
def written(drivers: dict[str, Driver]) -> set[str]:
    """The clients whose topics are written."""
    admin = drivers["confluent-kafka"]
    for name, driver in drivers.items():
        topic = f"cross-{name}"
        admin.call("create_topic", topic=topic, partitions=PARTITIONS, replication=3)
        for codec in CODECS:
            driver.call("produce", topic=topic, records=of_codec(codec), codec=codec)
    return set(drivers)


@pytest.mark.parametrize("reader", NAMES)
@pytest.mark.parametrize("writer", NAMES)
def test_every_client_reads_what_every_client_wrote(
    drivers: dict[str, Driver], written: set[str], writer: str, reader: str
) -> None:
    if not {writer, reader} <= written:
        pytest.skip("Strandline's own client speaks to Strandline only")
    with recorded("cross reading", writer, f"read by {reader}"):
        got = drivers[reader].call(
            "read",
            topic=f"cross-{writer}",
            partitions=list(range(PARTITIONS)),
            wait_s=40.0,
        )["records"]
        wanted = [each for codec in CODECS for each in of_codec(codec)]
        same(got, wanted, timed=client(writer).name not in WITHOUT_TIMESTAMPS)
