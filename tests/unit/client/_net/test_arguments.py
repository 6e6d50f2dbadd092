"""Options are refused where they are given, by the name that the caller used."""

from __future__ import annotations

from typing import Any

import pytest

from strandline import Admin, Consumer, Producer, sync
from strandline._net.arguments import INT32_MAX, REQUEST_BYTES_MAX
from strandline.errors import ConfigurationError

AT = "127.0.0.1:9"
TOO_LATE: list[Any] = [-1, "5", None, True, float("nan"), float("inf"), INT32_MAX + 1]
NO_SIZE: list[Any] = [0, -1, "5", None, True, 1.5, 1 << 80]


def refused(make: Any, option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{option}="):
        make(**{option: value})


@pytest.mark.parametrize("value", TOO_LATE)
def test_a_time_span_is_a_number_within_bounds(value: Any) -> None:
    for option in ("request_timeout_ms", "connect_timeout_ms", "metadata_max_age_ms"):
        refused(lambda **given: Producer(AT, **given), option, value)
        refused(lambda **given: Consumer(bootstrap_servers=AT, **given), option, value)
    for option in ("linger_ms", "delivery_timeout_ms"):
        refused(lambda **given: Producer(AT, **given), option, value)
    for option in ("request_timeout_ms", "connect_timeout_ms"):
        refused(lambda **given: Admin(AT, **given), option, value)


@pytest.mark.parametrize("value", NO_SIZE)
def test_a_size_is_a_whole_number_within_bounds(value: Any) -> None:
    for option in ("batch_size", "max_in_flight", "max_request_size", "buffer_memory"):
        refused(lambda **given: Producer(AT, **given), option, value)
    for option in (
        "fetch_min_bytes",
        "fetch_max_bytes",
        "max_partition_fetch_bytes",
        "prefetch_max_bytes",
    ):
        refused(lambda **given: Consumer(bootstrap_servers=AT, **given), option, value)
    if value is not None:
        refused(lambda **given: Consumer(bootstrap_servers=AT, **given), "max_poll_records", value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("acks", ["all"]),
        ("acks", True),
        ("acks", 2),
        ("enable_idempotence", "no"),
        ("compression_type", 1),
        ("compression_type", "brotli"),
        ("partitioner", "fnv1a"),
    ],
)
def test_a_producer_takes_what_it_says(option: str, value: Any) -> None:
    refused(lambda **given: Producer(AT, **given), option, value)
    refused(lambda **given: sync.Producer(AT, **given), option, value)


@pytest.mark.parametrize(
    ("option", "value"),
    [("auto_offset_reset", ["latest"]), ("auto_offset_reset", "newest"), ("check_crcs", 0)],
)
def test_a_consumer_takes_what_it_says(option: str, value: Any) -> None:
    refused(lambda **given: Consumer(bootstrap_servers=AT, **given), option, value)
    refused(lambda **given: sync.Consumer(bootstrap_servers=AT, **given), option, value)


@pytest.mark.parametrize("value", [None, 9092, ["127.0.0.1:9", 5], b"127.0.0.1:9", ""])
def test_bootstrap_servers_are_addresses(value: Any) -> None:
    for make in (Producer, Admin, sync.Producer, sync.Admin):
        with pytest.raises(ConfigurationError, match=r"^bootstrap_servers"):
            make(value)


@pytest.mark.parametrize("topic", [["orders"], b"orders", 5, None])
def test_topics_are_named_one_by_one(topic: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^topics"):
        Consumer(topic, bootstrap_servers=AT)


def test_a_record_is_bounded_by_what_the_transport_carries() -> None:
    Producer(AT, max_request_size=REQUEST_BYTES_MAX)
    with pytest.raises(ConfigurationError, match=r"max_request_size=\d+ is above 66060288"):
        Producer(AT, max_request_size=REQUEST_BYTES_MAX + 1)
