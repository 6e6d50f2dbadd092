"""Clients of Kafka's protocol in simulated runs: the same oracles see their records."""

import pytest

from strandline_proof.sim.cluster.topology import Topology
from strandline_proof.sim.plan.plan import Fault, Plan, draw_plan
from strandline_proof.sim.run.run import RunResult, run_plan
from strandline_proof.sim.workload.work import Work

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


def test_a_third_of_all_seeds_speak_kafkas_protocol() -> None:
    share = sum(draw_plan(seed).topology.work.kafka for seed in range(3000)) / 3000
    assert 0.30 < share < 0.37
