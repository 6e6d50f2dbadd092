"""The address of a coordinator."""

from types import SimpleNamespace
from typing import Any

import pytest

from strandline_broker.hosts.serving.coordinators import find_coordinator
from strandline_proto.errors import CoordinatorNotAvailable


def test_a_partition_without_a_leader_is_named_as_commands_name_it() -> None:
    topic = SimpleNamespace(topic_id=b"t" * 16, partitions=[0])
    view: Any = SimpleNamespace(
        topic_named=lambda name: topic, current_leader=lambda topic_id, partition: None
    )
    with pytest.raises(CoordinatorNotAvailable, match=r"^__consumer_offsets:0 has no leader"):
        find_coordinator(view, 0, "billing", "PLAINTEXT")
