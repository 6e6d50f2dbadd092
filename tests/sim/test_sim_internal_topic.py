"""The topic that groups are kept in, in a cluster of the simulator that wants it: made by the
controller, also by the next one, and kept by every oracle's rules like any other topic.
"""

import pytest

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run
from strandline_proof.sim.topology.topology import Topology


def execute(*faults: Fault, offsets_partitions: int) -> Run:
    topology = Topology(partitions=1, offsets_partitions=offsets_partitions)
    done = Run(Plan(seed=7, topology=topology, faults=faults, chaos_s=3))
    outcome = done.execute()
    assert outcome.failure is None, outcome.timeline.text()
    return done


def names_in(done: Run) -> list[str]:
    state = done.oracles.control.state
    assert state is not None
    return sorted(state.topic_ids)


@pytest.mark.parametrize(
    "faults",
    [
        (),
        (Fault(0.3, "kill", {"node": "controller", "restart_s": 0.4}),),
        (Fault(0.1, "kill", {"node": "broker-2", "restart_s": 1.5}),),
    ],
    ids=["nothing happens", "the controller dies first", "a broker of it is down"],
)
def test_it_is_made_and_held_by_all(faults: tuple[Fault, ...]) -> None:
    done = execute(*faults, offsets_partitions=4)
    assert CONSUMER_OFFSETS in names_in(done)
    state = done.oracles.control.state
    assert state is not None
    topic = state.topics[state.topic_ids[CONSUMER_OFFSETS]]
    assert len(topic.partitions) == 4
    for node in done.world.brokers:
        held = [key for key in node.process.replicas.partitions if key[0] == topic.topic_id]
        assert len(held) == 4, node.name


def test_it_is_not_there_where_no_schedule_wants_it() -> None:
    assert CONSUMER_OFFSETS not in names_in(execute(offsets_partitions=0))
