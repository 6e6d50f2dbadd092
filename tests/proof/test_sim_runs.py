"""Whole clusters in virtual time: sound under faults, the same in every process, and honest about
what is broken.
"""

import contextlib
import dataclasses
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.core.replication.leader import Leader
from strandline_proof.sim.kinds import KINDS
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.plan.faults import BEFORE_HEALING_S
from strandline_proof.sim.plan.plan import PATIENCE_S, Fault, Plan, crash_point_plans, draw_plan
from strandline_proof.sim.run.run import Run, RunResult, run_plan
from strandline_proof.sim.sweep import sweep
from strandline_proof.sim.sweep.sweep import shrink
from strandline_proof.sim.topology.topology import Topology

Running = subprocess.Popen[str]
QUIET = Plan(seed=1, topology=Topology(), faults=(), chaos_s=3.0)
DIGESTS = """
import sys
from strandline_proof.sim.plan.plan import read_plan
from strandline_proof.sim.run.run import run_plan
for line in sys.stdin:
    print(run_plan(read_plan(line, commit="")).digest)
"""


def with_faults(*faults: Fault, **topology: Any) -> Plan:
    return Plan(seed=1, topology=Topology(**topology), faults=faults, chaos_s=5.0)


def test_a_cluster_without_faults_works() -> None:
    result = run_plan(QUIET)
    assert result.failure is None
    assert result.acknowledged > 50
    assert result.sometimes["leader changed"] == 0


def test_a_run_that_is_cut_off_drops_no_coroutine_half_run() -> None:
    """Python would complain of each, and here a complaint is an error."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    run = Run(QUIET)
    run.world.loop.post(1.0, None, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.execute()
    assert run.world.loop.is_closed()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_is_sound(seed: int) -> None:
    """`make sim` runs thousands."""
    result = run_plan(draw_plan(seed))
    assert result.failure is None, result.timeline.text()


def every_kind_at_once(seed: int) -> Plan:
    """A fault of each kind, one after the other; a few are refused where they could lose data."""
    rng, topology = random.Random(seed), Topology(brokers=4)
    faults = [
        Fault(0.4 + 0.25 * number, kind, draw(rng, topology))
        for number, (kind, draw) in enumerate(KINDS.items())
    ]
    return Plan(1, topology, tuple(faults), chaos_s=1.0 + 0.25 * len(faults))


@contextlib.contextmanager
def elsewhere(plans: dict[str, Sequence[Plan]], folder: Path) -> Iterator[list[Running]]:
    """A process for each hash seed, all at the same time, that prints the digests of its plans."""
    with contextlib.ExitStack() as stack:
        processes = []
        for hash_seed, its_own in plans.items():
            file = folder / hash_seed
            file.write_text("".join(json.dumps(plan.document()) + "\n" for plan in its_own))
            process = subprocess.Popen(
                [sys.executable, "-c", DIGESTS],
                env=os.environ | {"PYTHONHASHSEED": hash_seed},
                stdin=stack.enter_context(file.open()),
                stdout=subprocess.PIPE,
                text=True,
            )
            processes.append(stack.enter_context(process))
        yield processes


def test_a_seed_is_the_same_in_every_process_and_under_every_hash_seed(tmp_path: Path) -> None:
    """This process has a random one, and so another each time; each plan runs in another, too."""
    plans = [draw_plan(5), every_kind_at_once(3), every_kind_at_once(12)]
    assert plans[0].topology.groups
    with elsewhere({"0": plans[:2], "4711": plans[2:]}, tmp_path) as processes:
        here = [run_plan(plan) for plan in plans]
        digests = [result.digest for result in here]
        found = [process.communicate(timeout=300)[0].split() for process in processes]
    assert found == [digests[:2], digests[2:]]
    assert len(set(digests)) == len(plans)
    assert len(here[1].struck | here[2].struck) >= 0.9 * len(KINDS)
    assert run_plan(plans[0]).digest == digests[0]


def test_a_killed_leader_is_replaced_at_once() -> None:
    kill = Fault(2.0, "kill", {"node": "leader-0", "restart_s": 1.0})
    result = run_plan(with_faults(kill))
    assert result.failure is None
    assert result.sometimes["leader changed"] >= 1
    assert result.struck == {"kill": 1}


def test_all_machines_without_power_lose_nothing_that_was_flushed() -> None:
    dark = {"nodes": ["controller", "broker-1", "broker-2", "broker-3"], "restart_s": 0.5}
    power = Fault(2.5, "power", {**dark, "survival": 0.0})
    result = run_plan(with_faults(power, flush_policy="always"))
    assert result.failure is None
    assert result.sometimes["loss permitted"] == 0


@pytest.mark.parametrize("operation", [1, 35])
def test_no_disk_operation_is_a_bad_moment_to_lose_all_power(operation: int) -> None:
    for plan in list(crash_point_plans(operation))[-3:]:
        result = run_plan(plan)
        assert result.failure is None, f"{plan.text()}\n{result.timeline.text()}"
        assert result.sometimes["power lost at a disk operation"] == 1


def test_a_fault_may_wait_for_a_change_of_the_isr() -> None:
    pause = Fault(2.0, "pause", {"node": "broker-1", "for_s": 2.5})
    kill = Fault(1.0, "kill", {"node": "broker-2", "restart_s": 0.5}, after="isr", delay_s=0.02)
    result = run_plan(with_faults(pause, kill))
    assert result.struck == {"pause": 1, "kill": 1}
    assert result.unprompted == 0
    assert death_of("broker-2", result) < 1.0 + PATIENCE_S


@pytest.mark.parametrize(("at_s", "dies_s"), [(1.0, 1.0 + PATIENCE_S), (3.0, 5.0), (4.9, 5.0)])
def test_a_fault_whose_event_does_not_come_strikes_all_the_same(at_s: float, dies_s: float) -> None:
    """After a while, and before everything heals."""
    kill = Fault(at_s, "kill", {"node": "broker-2", "restart_s": 0.5}, after="isr", delay_s=0.02)
    result = run_plan(with_faults(kill))
    assert result.failure is None
    assert result.struck == {"kill": 1}
    assert result.unprompted == 1
    assert dies_s - BEFORE_HEALING_S <= death_of("broker-2", result) < dies_s + 0.001


def test_a_fault_may_wait_for_ever() -> None:
    kill = Fault(1.0, "kill", {"node": "broker-2", "restart_s": 0.5}, after="isr", delay_s=0.02)
    result = run_plan(dataclasses.replace(with_faults(kill), patience_s=None))
    assert (result.struck, result.unprompted) == ({}, 0)


def test_each_fault_that_waits_hears_of_its_event() -> None:
    """Also those that begin to wait when others have struck already."""
    waits = [
        Fault(at_s, "kill", {"node": f"broker-{n}", "restart_s": 0.2}, after="isr")
        for n, at_s in ((2, 1.5), (3, 3.0))
    ]
    stop = Fault(1.0, "kill", {"node": "broker-1", "restart_s": 0.3})
    again = Fault(3.5, "kill", {"node": "broker-1", "restart_s": 0.3})
    result = run_plan(dataclasses.replace(with_faults(stop, again, *waits), patience_s=None))
    assert result.sound, result.failure
    assert result.struck["kill"] == 4


def death_of(name: str, result: RunResult) -> float:
    (death,) = (li for li in result.timeline.lines if (li.node, li.event) == (name, "killed"))
    return float(death.time_s)


def test_a_fault_that_lies_in_wait_has_struck_when_it_does() -> None:
    waits = {"node": "broker-1", "power": False, "restart_s": 0.3}
    never = Fault(1.0, "crash-at", {**waits, "point": "truncation", "count": 100})
    once = Fault(1.0, "crash-at", {**waits, "point": "append", "count": 2})
    far = {"node": "broker-2", "operation": 10**6, "nodes": [], "restart_s": 0.3, "survival": 0.0}
    copied = {"age_s": 2.0, "meets_s": 0.2}  # nothing happens that the copy does not know
    idle = run_plan(
        with_faults(never, Fault(1.0, "crash-point", far), Fault(2.2, "store-restored", copied))
    )
    assert idle.failure is None
    assert idle.struck == {}
    assert run_plan(with_faults(once)).struck == {"crash-at": 1}
    near = Fault(1.0, "crash-point", {**far, "operation": 5})
    assert run_plan(with_faults(near)).struck == {"crash-point": 1}


def test_a_misread_that_begins_during_a_start_takes_nothing_from_the_logs_that_are_opened() -> None:
    """Above the recovery point it would look like a torn tail (I-7)."""
    faults = []
    for broker, at_s in (("broker-1", 2.5), ("broker-2", 3.0)):
        misread = {"node": broker, "for_s": 0.3, "rate": 0.5}
        faults.append(Fault(at_s, "kill", {"node": broker, "restart_s": 0.1}))
        faults.append(Fault(at_s + 0.1005, "misread", misread))
    run = Run(with_faults(*faults, partitions=1))
    assert run.execute().failure is None
    assert "recovery" not in {line.event for line in run.world.timeline.lines}
    assert all(run.world.nodes[fault.arguments["node"]].disk.counts["misread"] for fault in faults)


def test_an_operation_that_hangs_for_five_seconds_is_survived() -> None:
    hang = {"node": "leader-0", "for_s": 3.0, "probability": 0.2, "stall_s": 5.0}
    result = run_plan(with_faults(Fault(1.5, "stalling-disk", hang)))
    assert result.failure is None
    assert result.sometimes["disk operation hung"] == 1, "once, or what waits would wait on"


@pytest.mark.parametrize("kind", ["read-error", "disk-full"])
def test_the_controllers_disk_may_fail_too(kind: str) -> None:
    how = {"rate": 0.5} if kind == "read-error" else {"room": 0}
    strike = Fault(1.5, kind, {"node": "controller", "for_s": 1.5, **how})
    restart = Fault(1.6, "kill", {"node": "controller", "restart_s": 0.2})
    result = run_plan(with_faults(strike, restart))
    assert result.failure is None
    assert result.struck == {kind: 1, "kill": 1}


# What the oracles are for: each of these takes one rule out of the broker.


def ignores_the_minimum(leader: Leader) -> bool:
    return False


def commits_alone(real: Callable[..., Any]) -> Callable[..., Any]:
    def advance(self: Any) -> Any:
        followers, self.followers = self.followers, {}
        try:
            return real(self)
        finally:
            self.followers = followers

    return advance


def test_a_leader_that_commits_without_its_followers_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Leader, "_advance", commits_alone(Leader._advance))
    result = run_plan(QUIET)
    assert result.invariant == "I-9"


def test_a_leader_that_commits_below_its_minimum_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Leader, "below_min_isr", ignores_the_minimum)
    pauses = [Fault(1.0, "pause", {"node": f"broker-{n}", "for_s": 3.5}) for n in (2, 3)]
    result = run_plan(with_faults(*pauses, partitions=1))
    assert result.invariant == "I-9"


def test_a_failing_plan_is_shrunk_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "below_min_isr", ignores_the_minimum)
    pauses = [Fault(1.0, "pause", {"node": f"broker-{n}", "for_s": 3.5}) for n in (2, 3)]
    others = [
        Fault(0.5, "clock-jump", {"node": "broker-1", "offset_s": 1.0}),
        Fault(1.5, "slow-link", {"a": "broker-1", "b": "writer", "for_s": 0.5, "ms": 20}),
        Fault(2.0, "pause", {"node": "reader", "for_s": 0.5}),
    ]
    plan = with_faults(*pauses, *others, partitions=1)
    small = shrink(plan, lambda candidate, fails: None)
    assert small == dataclasses.replace(plan, faults=tuple(pauses))


def test_a_plan_is_shrunk_to_what_breaks_it_in_the_same_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not to what breaks the same invariant otherwise."""

    def run(plan: Plan) -> RunResult:
        kinds = {fault.kind for fault in plan.faults}
        why = "a log ends at 3" if {"kill", "stop"} <= kinds else "nobody holds it"
        return RunResult(plan, Violation("I-9", why if "kill" in kinds else "an offset is lost"))

    monkeypatch.setattr(sweep, "run_plan", run)
    needed = [Fault(1.0, kind, {"node": "broker-1", "restart_s": 0.3}) for kind in ("kill", "stop")]
    plan = with_faults(*needed, Fault(2.0, "pause", {"node": "reader", "for_s": 0.5}))
    assert shrink(plan, lambda candidate, fails: None).faults == tuple(needed)
