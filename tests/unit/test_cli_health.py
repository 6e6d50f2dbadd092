"""What `strandline health` says of partitions without a leader: whom they wait for."""

import pytest

from strandline_cli.commands.health import _partition_problems
from strandline_proto.v1.metadata_pb2 import MetadataResponse


@pytest.mark.parametrize(
    ("elr", "last_known", "says"),
    [
        ([2], [1], "start broker 2, which holds all that was acknowledged"),
        ([], [1, 2], "waits for broker 1 and 2, in sync last, alive and on the same disk"),
        ([], [], "nobody is known to be in sync"),
    ],
)
def test_a_partition_without_a_leader_names_whom_it_waits_for(
    elr: list[int], last_known: list[int], says: str
) -> None:
    metadata = MetadataResponse()
    topic = metadata.topics.add(name="orders")
    topic.partitions.add(index=3, leader=-1, replicas=[1, 2, 3], elr=elr, last_known_elr=last_known)
    (problem,) = _partition_problems(metadata)
    assert problem.startswith("orders/3 has no leader (")
    assert says in problem
    assert elr or "`strandline leader elect --unclean orders:3`" in problem
