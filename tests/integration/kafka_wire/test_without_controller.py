"""A broker that has lost its controller: what it knows is served, what needs a decision is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from support.cluster import eventually
from support.kafka_cluster import kafka_cluster

if TYPE_CHECKING:
    from pathlib import Path

WAIT_S = 30.0


def test_decisions_wait_for_a_controller_and_topics_are_described(tmp_path: Path) -> None:
    with kafka_cluster(tmp_path, 1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        [made] = admin.create_topics([NewTopic("orders", 1, 1)]).values()
        made.result(WAIT_S)
        cluster.kill("controller")
        found = admin.list_topics("orders", timeout=WAIT_S).topics["orders"]
        assert (found.error, found.partitions[0].leader) == (None, 1)
        missing = admin.list_topics("by-metadata", timeout=WAIT_S).topics["by-metadata"]
        assert missing.error.code() == KafkaError.LEADER_NOT_AVAILABLE
        [refused] = admin.create_topics([NewTopic("more", 1, 1)], request_timeout=5.0).values()
        with pytest.raises(KafkaException):
            refused.result(WAIT_S)
        assert "a topic that a client asked for was not created" in cluster.log("broker-1")
        cluster.start_controller()

        def is_created() -> bool:
            [later] = admin.create_topics([NewTopic("later", 1, 1)]).values()
            try:
                later.result(WAIT_S)
            except KafkaException as error:
                return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
            return True

        eventually(is_created, "the new controller creates a topic", poll_s=0.2)
