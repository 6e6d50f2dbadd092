"""A process may end by itself for a reason of its own machine only."""

import pytest

from strandline.errors import FencedLeaderEpoch
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run, RunResult
from strandline_proof.sim.topology.topology import Topology

FULL = Fault(2.0, "disk-full", {"node": "broker-1", "for_s": 2.0, "room": 0})
TWIN = Fault(2.0, "twin", {"node": "broker-1", "disk": "empty", "for_s": 0.3, "again": False})


def ended(node: str, why: str, *faults: Fault, error: BaseException | None = None) -> RunResult:
    """A run in which a process ends so, three seconds after its beginning."""
    run = Run(Plan(9, Topology(partitions=1), faults, chaos_s=3.5))
    run.world.loop.post(3.0, None, lambda: run.world.nodes[node]._end(why, error))
    return run.execute()


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("broker-1", "FileNotFoundError: [Errno 2] No such file or directory: '/data/t-0'"),
        ("broker-2", "OSError: [Errno 28] No space left on device: ''"),
        ("broker-3", "broker 3 has been replaced by another process with the same id"),
        ("controller", "'/data' is locked by another running process"),
    ],
)
def test_what_befell_another_machine_ends_no_process(node: str, why: str) -> None:
    result = ended(node, why, FULL, TWIN)
    assert (result.invariant, why in str(result.failure)) == ("exit", True)


def test_what_befell_its_own_machine_may_end_a_process() -> None:
    assert ended("broker-1", "OSError: [Errno 28] No space left on device: ''", FULL).sound
    assert ended("broker-1", "broker 1 has been replaced by another process", TWIN).sound


def test_an_application_is_not_told_what_the_client_can_mend() -> None:
    why = "t-0: leader epoch 1 has ended, 2 is current; refresh metadata"
    result = ended("reader", why, error=FencedLeaderEpoch(why))
    assert (result.invariant, why in str(result.failure)) == ("I-183", True)
    assert ended("reader", "no line of ours", error=OSError("no")).invariant == "exit"
