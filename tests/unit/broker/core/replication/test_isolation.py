"""Isolation levels are Kafka's two; another one is refused."""

import pytest

from strandline_broker.core.replication.isolation import Isolation, isolation
from strandline_proto.errors import UnsupportedVersion


def test_the_levels_are_those_of_kafka() -> None:
    assert isolation(0) is Isolation.READ_UNCOMMITTED
    assert isolation(1) is Isolation.READ_COMMITTED


@pytest.mark.parametrize("level", [-1, 2, 127])
def test_another_level_is_refused_with_the_known_ones(level: int) -> None:
    with pytest.raises(UnsupportedVersion, match=rf"{level} is not known: 0 is read_uncommitted"):
        isolation(level)
