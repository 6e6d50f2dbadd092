"""Clients of Kafka's protocol in simulated runs: the same oracles see their records."""

import pytest

from strandline_proof.sim.plan.plan import Fault, Plan, draw_plan
from strandline_proof.sim.run.run import RunResult, run_plan
from strandline_proof.sim.topology.groups import CLASSIC, GroupSpec
from strandline_proof.sim.topology.topology import ImpossibleTopology, Topology
from strandline_proof.sim.topology.work import Work

RESENT = "Kafka's producer sent a batch again"


def ran(*faults: Fault, seed: int = 1, **work: object) -> RunResult:
    topology = Topology(work=Work(kafka=True, **work))  # type: ignore[arg-type] # by their names
    result = run_plan(Plan(seed=seed, topology=topology, faults=faults))
    assert result.failure is None, result.timeline.text()
    return result


def test_records_of_kafkas_clients_are_acknowledged_and_read() -> None:
    assert ran().acknowledged > 50


def test_a_killed_leader_has_batches_sent_again_and_none_lost() -> None:
    kill = Fault(2.0, "kill", {"node": "leader-0", "restart_s": 0.5})
    found = ran(kill, burst=60, first_sequence=(1 << 31) - 20)
    assert found.sometimes[RESENT] > 0
    assert found.acknowledged > 100


@pytest.mark.parametrize("compression", ["snappy", "lz4", "zstd"])
def test_each_codec_passes(compression: str) -> None:
    assert ran(compression=compression, burst=20).acknowledged > 50


def test_members_of_a_classic_group_read_every_record_while_its_coordinator_dies() -> None:
    group = GroupSpec(("", "manual", "static"), protocol=CLASSIC)
    topology = Topology(offsets_partitions=2, groups=(group,), work=Work(kafka=True))
    faults = (
        Fault(2.0, "kill", {"node": "coordinator-0", "restart_s": 0.5}),
        Fault(4.0, "member-crash", {"node": "member-0-0", "restart_s": 1.0}),
        Fault(5.0, "member-leave", {"node": "member-0-1", "restart_s": 0.5}),
    )
    result = run_plan(Plan(seed=1, topology=topology, faults=faults))
    assert result.failure is None, result.timeline.text()
    assert result.sometimes["classic member committed"] > 5
    assert result.sometimes["classic member got a share"] > 5


def test_a_classic_group_needs_clients_of_kafkas_protocol() -> None:
    with pytest.raises(ImpossibleTopology, match=r"work\.kafka"):
        Topology(offsets_partitions=1, groups=(GroupSpec(protocol=CLASSIC),))


def test_a_third_of_all_seeds_speak_kafkas_protocol() -> None:
    drawn = [draw_plan(seed).topology for seed in range(3000)]
    speaking = [topology for topology in drawn if topology.work.kafka]
    assert 0.30 < len(speaking) / len(drawn) < 0.37
    assert all(topology.groups[0].protocol == CLASSIC for topology in speaking)
