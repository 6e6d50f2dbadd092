"""Reassignments under faults: each ends as it should, and what was meant is what is left
(I-85, I-86, I-88).
"""

from typing import Any

import pytest

from strandline_broker.config.loading import load_broker_config
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run, RunResult
from strandline_proof.sim.topology.topology import DATA, TOPIC, Topology

pytestmark = pytest.mark.proof


def move(at_s: float, *target: int, after: str | None = None) -> Fault:
    return Fault(at_s, "reassign", {"partition": 0, "target": list(target)}, after)


def cancel(at_s: float, then_s: float, *target: int) -> Fault:
    arguments = {"partition": 0, "target": list(target), "then_s": then_s}
    return Fault(at_s, "reassign-cancel", arguments)


def override(at_s: float, then_s: float, target: list[int], other: list[int]) -> Fault:
    arguments = {"partition": 0, "target": target, "then_s": then_s, "other": other}
    return Fault(at_s, "reassign-override", arguments)


def kill(at_s: float, node: str, restart_s: float, after: str | None = None) -> Fault:
    return Fault(at_s, "kill", {"node": node, "restart_s": restart_s}, after)


def ran(*faults: Fault, **topology: Any) -> tuple[Run, RunResult]:
    plan = Plan(seed=1, topology=Topology(brokers=4, partitions=1, **topology), faults=faults)
    run = Run(plan)
    result = run.execute()
    assert result.failure is None, result.timeline.text()
    return run, result


def replicas_of(run: Run) -> tuple[int, ...]:
    (key,) = run.oracles.control.main_keys()
    return run.oracles.control.partitions[key].replicas


def logs_of(run: Run) -> set[int]:
    """Brokers that have a directory of the partition under its own name."""
    brokers = enumerate(run.world.topology.broker_names, 1)
    return {
        n for n, name in brokers if f"{TOPIC}-0" in SimFs(run.world.nodes[name].disk).listdir(DATA)
    }


def test_replicas_move_and_the_old_ones_are_deleted() -> None:
    run, result = ran(move(2.0, 4, 3))
    assert replicas_of(run) == (4, 3)
    assert logs_of(run) == {3, 4}
    assert result.sometimes["reassignment completed"] == 1
    assert result.acknowledged > 100


def test_a_move_there_and_back_again() -> None:
    run, result = ran(move(2.0, 4, 2, 3), move(4.0, 1, 2, 3), move(6.0, 3, 4, 1))
    assert replicas_of(run) == (3, 4, 1)
    assert logs_of(run) == {1, 3, 4}
    assert result.sometimes["reassignment completed"] == 3


def test_a_move_waits_for_a_broker_that_died_and_a_cancel_does_not() -> None:
    dies = kill(2.3, "broker-4", 5.0)
    slow = Fault(1.9, "slow-disk", {"node": "broker-4", "for_s": 1.0, "factor": 200})
    run, result = ran(slow, move(2.0, 4, 2, 3), dies)
    assert replicas_of(run) == (4, 2, 3)
    run, result = ran(slow, cancel(2.0, 3.0, 4, 2, 3), dies)
    assert result.sometimes["reassignment cancelled"] == 1
    assert replicas_of(run) == (1, 2, 3)
    assert logs_of(run) == {1, 2, 3}


def test_another_target_takes_the_place_of_the_first() -> None:
    run, result = ran(override(2.0, 0.005, [4, 2, 3], [1, 2, 4, 3]))
    assert replicas_of(run) == (1, 2, 4, 3)
    assert result.sometimes["reassignment overridden"] == 1


@pytest.mark.parametrize("restart_s", [0.3, 2.5])
def test_a_removed_broker_that_was_away_serves_nothing_of_it_when_it_is_back(
    restart_s: float,
) -> None:
    """I-87: it hears of everything at once, and sets its log aside."""
    run, _ = ran(kill(1.9, "broker-1", restart_s), move(2.0, 4, 2, 3))
    assert replicas_of(run) == (4, 2, 3)
    assert 1 not in logs_of(run)


def test_a_removed_broker_that_missed_it_and_is_a_replica_again_starts_in_the_new_epoch() -> None:
    """P-26: for it, and for a leader that heard of both at once, nothing remembered counts."""
    away = kill(1.9, "broker-1", 3.0)
    run, result = ran(away, move(2.5, 4, 2, 3), move(4.7, 1, 2, 3), move(6.0, 1, 2, 3, 4))
    assert replicas_of(run) == (1, 2, 3, 4)
    assert result.sometimes["replica removed"] >= 1


def test_a_broker_whose_log_was_set_aside_becomes_a_replica_again() -> None:
    """I-87, P-26: it begins anew beside what it had, which stays for the operator."""
    away = kill(1.9, "broker-1", 1.0)
    run, result = ran(away, move(2.0, 4, 2, 3), move(4.0, 1, 2, 3), move(6.0, 4, 2, 3))
    assert replicas_of(run) == (4, 2, 3)
    assert logs_of(run) == {2, 3, 4}
    assert result.sometimes["reassignment completed"] == 3
    names = SimFs(run.world.nodes["broker-1"].disk).listdir(DATA)
    (stray,) = [name for name in names if name.endswith("-stray")]
    assert stray.startswith(f"{TOPIC}-0.")


def test_what_a_disk_did_not_delete_is_no_replica_again() -> None:
    """The log of a removed replica stays under its own name as its disk refuses, until the broker
    is to be one again.
    """
    refuses = Fault(1.98, "write-error", {"node": "broker-1", "for_s": 1.0, "rate": 1.0})
    run, result = ran(refuses, move(2.0, 4, 2, 3), move(4.0, 1, 2, 3))
    assert replicas_of(run) == (1, 2, 3)
    assert logs_of(run) == {1, 2, 3}
    said = result.timeline.text()
    assert "a replica could not be removed" in said
    assert "stray replica set aside" in said, "before the new one is made"


def test_the_controller_may_die_in_between() -> None:
    run, _ = ran(move(2.0, 4, 2, 3), kill(2.02, "controller", 0.5), kill(3.0, "controller", 0.1))
    assert replicas_of(run) == (4, 2, 3)


def test_nobody_moves_a_partition_to_a_log_that_a_disk_has_changed_alone() -> None:
    """What it lacks nobody could have back, so the next move would never end (I-88)."""
    bit = {"node": "broker-2", "file": "log", "bits": 1, "restart_s": 0.0}
    few = {"partition": 0, "target": [2], "then_s": 0.4, "other": [1, 2]}
    changed = Fault(3.0, "bit-flip", bit), Fault(3.02, "reassign-few", few)
    run, result = ran(*changed, segment_bytes=1500, scrub_ms=1500)
    assert replicas_of(run) == (1, 2)
    assert result.sometimes["damage healed"] == 1
    assert result.sometimes["reassignment completed"] == 2


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_takes_its_time_and_holds_nobody_else_up(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of one fetch stream wait, members of the ISR in the same stream do not (KIP-73)."""

    def load(path: Any, settings: dict[str, str], environ: Any) -> Any:
        rate = {f"{side}.replication.throttled.rate": "3000"}
        return load_broker_config(path, settings | rate, environ)

    moves = (move(3.0, 4, 2, 1),)
    free, free_run = duration_of(*moves)
    monkeypatch.setattr("strandline_proof.sim.topology.topology.load_broker_config", load)
    held, held_run = duration_of(*moves)
    assert held > free + 1.0
    assert held_run.acknowledged > 0.9 * free_run.acknowledged


def duration_of(*moves: Fault) -> tuple[float, RunResult]:
    """Seconds from the first change of the replicas to the last."""
    plan = Plan(seed=1, topology=Topology(brokers=4, partitions=2), faults=moves)
    run, changes = Run(plan), []
    real = run.oracles.control.moves.on_change

    def on_change(where: str, old: Any, new: Any) -> None:
        if old.original != new.original:
            changes.append(run.world.loop.now)
        real(where, old, new)

    run.oracles.control.moves.on_change = on_change  # type: ignore[method-assign]
    result = run.execute()
    assert result.failure is None, result.timeline.text()
    return changes[-1] - changes[0], result
