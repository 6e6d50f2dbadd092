"""The payloads of consumers, by the examples of the reference (§4.5)."""

from __future__ import annotations

import pytest

from strandline_broker.core.groups.classic.consumer_protocol import (
    assigned_partitions,
    subscribed_names,
)


@pytest.mark.parametrize(
    "text",
    [
        "0000 00000001 000174 ffffffff",
        "0001 00000001 000174 ffffffff 00000001 000174 00000002 00000000 00000001",
        "0002 00000001 000174 ffffffff 00000001 000174 00000002 00000000 00000001 00000004",
        "0003 00000001 000174 ffffffff 00000000 00000004 000172",
        "0009 00000001 000174",
    ],
)
def test_every_version_of_a_subscription_begins_with_its_topics(text: str) -> None:
    assert subscribed_names(bytes.fromhex(text)) == frozenset({"t"})


def test_an_assignment_names_partitions() -> None:
    one = bytes.fromhex("0001 00000001 000174 00000002 00000001 00000000 ffffffff")
    assert assigned_partitions(one) == {"t": (0, 1)}
    twice = bytes.fromhex("0000 00000002 000174 00000001 00000002 000174 00000001 00000000")
    assert assigned_partitions(twice) == {"t": (0, 2)}
    assert assigned_partitions(bytes.fromhex("0000 00000000 ffffffff")) == {}


@pytest.mark.parametrize("text", ["", "00", "0000", "0000 7fffffff", "0000 00000001 0005 74"])
def test_what_does_not_parse_is_nothing(text: str) -> None:
    assert subscribed_names(bytes.fromhex(text)) is None
    assert assigned_partitions(bytes.fromhex(text)) is None


@pytest.mark.parametrize("payload", [b"\0\0\0\0\0\1\0\1\xff", b"\0\0\0\0\0\1\0\1t\x7f\xff\xff\xff"])
def test_wrong_text_and_counts_are_no_harm(payload: bytes) -> None:
    assert assigned_partitions(payload) is None
