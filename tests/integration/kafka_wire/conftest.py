"""Real broker processes with listeners for Kafka clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.kafka_cluster import KafkaCluster, kafka_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers and a controller, shared by the tests of a module."""
    with kafka_cluster(tmp_path_factory.mktemp("kafka")) as made:
        yield made
