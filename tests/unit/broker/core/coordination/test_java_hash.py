"""Brokers place groups by the hash that clients compute."""

from strandline_broker.core.coordination.java_hash import partition_for
from strandline_proto import java_hash


def test_the_hash_is_the_contracts() -> None:
    assert partition_for is java_hash.partition_for
