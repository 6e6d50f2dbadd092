"""A sweep on several processes: the same as in one, whatever becomes of a worker."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from strandline_cli.options import Format
from strandline_cli.simulation.sweeping import Sweep
from strandline_proof.sim.kinds import GROUP_KINDS, KINDS, TRANSACTION_KINDS
from strandline_proof.sim.plan.plan import Plan, draw_plan
from strandline_proof.sim.run.report import Broken, RunSummary
from strandline_proof.sim.sweep import pool as sweep_pool
from strandline_proof.sim.sweep import sweep as sweeping
from strandline_proof.sim.sweep.expected import (
    EVENTS,
    GROUP_EVENTS,
    GROUP_KIND,
    KIND,
    ODDS,
    RARE_KINDS,
    RUNS_MIN,
    TRANSACTION_EVENTS,
    runs_needed,
)
from strandline_proof.sim.sweep.pool import NoWorker, Pool
from strandline_proof.sim.sweep.sweep import KINDS_KEPT, SEEDS_KEPT, Tally, run_here
from strandline_proof.sim.topology.topology import Topology
from support.cluster import eventually

QUICK = dataclasses.replace(draw_plan(1), faults=(), chaos_s=0.5)
WORKER = """
import json, os, sys, time
print("ready", flush=True)
for line in sys.stdin:
    seed = json.loads(line)["seed"]
    if seed == 13:
        sys.stderr.write("the roof is on fire")
        sys.stderr.flush()
        os._exit(3)
    if seed == 14:
        time.sleep(60)
    answer = {"broken": None, "steps": seed, "struck": {}, "sometimes": {}}
    os.write(1, json.dumps(answer).encode() + b"\\n")
"""


def numbered(*seeds: int) -> Iterator[Plan]:
    return (Plan(seed, Topology(), ()) for seed in seeds)


def by_seed(results: list[RunSummary]) -> list[RunSummary]:
    return sorted(results, key=lambda result: result.plan.seed)


def swept(
    run: Callable[[Plan], RunSummary],
) -> Callable[[Iterable[Plan], Callable[[RunSummary], None]], None]:
    """A sweep in this process."""

    def sweep(plans: Iterable[Plan], on_result: Callable[[RunSummary], None]) -> None:
        for plan in plans:
            on_result(run(plan))

    return sweep


def test_two_processes_come_to_the_same_as_one() -> None:
    plans = [dataclasses.replace(QUICK, seed=seed) for seed in (1, 2, 3)]
    there: list[RunSummary] = []
    Pool(2).sweep(plans, there.append)
    here = [run_here(plan) for plan in plans]
    assert by_seed(there) == by_seed(here)
    assert len({result.digest for result in here}) == 3


def test_a_worker_that_dies_or_hangs_takes_only_its_own_run_with_it() -> None:
    results: list[RunSummary] = []
    pool = Pool(2, command=[sys.executable, "-c", WORKER], run_s=1.0)
    pool.sweep(numbered(11, 12, 13, 14, 15, 16, 17), results.append)
    assert [result.plan.seed for result in by_seed(results)] == [11, 12, 13, 14, 15, 16, 17]
    broken = {r.plan.seed: r.broken for r in results if r.broken is not None}
    assert broken == {
        13: Broken("crash", "its process ended with status 3", "the roof is on fire"),
        14: Broken("crash", "the run did not end within 1 s", ""),
    }
    assert sum(result.steps for result in results) == 11 + 12 + 15 + 16 + 17


COPIES = """
import os, sys, time
from strandline_proof.sim.run.report import RunSummary
from strandline_proof.sim.sweep import worker
def run(plan):
    if plan.seed == 13:
        os.kill(os.getpid(), 9)
    if plan.seed == 14:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(60)
    return RunSummary(plan, steps=os.getpid(), simulated_s=os.getppid())
worker.RUNS_PER_COPY = 2
worker.run_here = run
worker.main()
"""


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_copy_of_a_worker_carries_out_a_few_runs(tmp_path: Path) -> None:
    found: dict[int, RunSummary] = {}
    pool = Pool(1, command=[sys.executable, "-c", COPIES, str(tmp_path / "pid")], run_s=5.0)
    pool.sweep(
        numbered(1, 2, 3, 4, 13, 5, 14), lambda result: found.update({result.plan.seed: result})
    )
    copies = [found[seed].steps for seed in (1, 2, 3, 4, 5)]
    assert copies[0] == copies[1] != copies[2] == copies[3] != copies[4]
    workers = [found[seed].simulated_s for seed in (1, 2, 3, 4, 5)]
    assert len(set(workers[:4])) == 1 != len(set(workers)), "another after the one that died"
    died, hung = found[13].broken, found[14].broken
    assert died == Broken("crash", "its process ended with status 137", "")
    assert hung == Broken("crash", "the run did not end within 5 s", "")
    hung_copy = int((tmp_path / "pid").read_text())
    eventually(lambda: not runs(hung_copy), "it ends with its worker")


def test_a_run_that_hangs_is_noticed_while_others_go_on() -> None:
    results: list[RunSummary] = []
    runs_max = 500

    def plans() -> Iterator[Plan]:
        """Until it is noticed."""
        yield from numbered(14)
        while len(results) < runs_max and not any(result.broken for result in results):
            yield from numbered(15)
            time.sleep(0.01)

    Pool(2, command=[sys.executable, "-c", WORKER], run_s=1.0).sweep(plans(), results.append)
    assert [r.plan.seed for r in results if r.broken is not None] == [14]
    assert len(results) < runs_max


def test_a_worker_that_cannot_start_ends_the_sweep_with_what_it_said() -> None:
    pool = Pool(2, command=[sys.executable, "-c", "raise SystemExit('no such module')"])
    with pytest.raises(NoWorker, match="no such module"):
        pool.sweep(numbered(1, 2), lambda result: None)


def test_a_worker_that_is_not_ready_in_time_ends_the_sweep_and_names_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweep_pool, "START_S", 1.0)
    pool = Pool(1, command=[sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(NoWorker, match="its process was not ready within 1 s"):
        pool.sweep(numbered(1), lambda result: None)


def test_an_error_of_the_simulator_is_a_failure_of_its_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(plan: Plan) -> None:
        raise KeyError("broker-9")

    monkeypatch.setattr(sweeping, "run_plan", fails)
    broken = run_here(QUICK).broken
    assert broken is not None
    assert broken.invariant == "KeyError"
    assert "in fails" in broken.report


def test_failures_that_differ_in_numbers_only_are_one_finding() -> None:
    tally = Tally()
    new = [
        tally.add(RunSummary(plan, Broken("I-9", f"broker-{plan.seed} ends at {plan.seed}", "")))
        for plan in numbered(*range(1, 1001))
    ]
    assert new == [True] + [False] * 999
    (finding,) = tally.findings.values()
    assert (finding.first.plan.seed, finding.count) == (1, 1000)
    assert finding.seeds == list(range(1, 1 + SEEDS_KEPT))


def test_a_sweep_of_many_different_failures_stays_small() -> None:
    tally = Tally()
    for plan in numbered(*range(1000)):
        tally.add(RunSummary(plan, Broken("I-9", "x" * plan.seed, "")))
    assert len(tally.findings) == KINDS_KEPT
    assert tally.failures == 1000


def test_an_event_is_demanded_of_a_sweep_that_hardly_lacks_it_by_chance() -> None:
    for rate in {*EVENTS.values(), *RARE_KINDS.values(), KIND, GROUP_KIND}:
        runs = runs_needed(rate)
        assert (1 - rate / 1000) ** runs <= 1 / ODDS
        assert runs == RUNS_MIN or (1 - rate / 1000) ** (runs * 0.8) > 1 / ODDS
    assert runs_needed(KIND) < 400
    assert set(RARE_KINDS) <= {*KINDS, *GROUP_KINDS}


def test_a_minute_is_asked_for_what_is_frequent_and_a_long_sweep_for_the_rest() -> None:
    kinds = (*KINDS, *GROUP_KINDS, *TRANSACTION_KINDS)

    def lacks(runs: int, *but: str) -> list[str]:
        tally = Tally(runs=runs, with_groups=runs, with_transactions=runs)
        tally.struck.update(kind for kind in kinds if kind not in but)
        tally.sometimes.update(event for event in EVENTS if event not in but)
        return tally.idle()

    assert lacks(RUNS_MIN - 1, *kinds, *EVENTS) == []
    assert lacks(150, "ISR shrunk") == ["ISR shrunk"]
    assert lacks(150, "store restored", "reassignment cancelled", "helix") == []
    assert lacks(1000, "reassignment cancelled", "helix") == ["helix", "reassignment cancelled"]
    assert lacks(1000, "loss reported") == []
    assert lacks(50_000, *kinds, *EVENTS) == [*kinds, *EVENTS]
    assert lacks(50_000) == []
    without = Tally(runs=50_000).idle()
    assert {*kinds, *EVENTS} - {*without} == {
        *GROUP_KINDS,
        *GROUP_EVENTS,
        *TRANSACTION_KINDS,
        *TRANSACTION_EVENTS,
    }


def test_an_interrupted_sweep_says_what_it_knows_and_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def plans() -> Iterator[Plan]:
        yield from (QUICK, QUICK)
        raise KeyboardInterrupt

    shown = Sweep(
        number=10,
        varied=True,
        commit="here",
        save=tmp_path,
        output=Format.JSON,
        go_on=lambda done: f"{done} are done",
    )
    assert shown.run(plans(), swept(run_here)) == 130
    out, err = capsys.readouterr()
    assert "interrupted; the rest: 2 are done" in err
    document = json.loads(out)
    assert (document["schedules"], document["interrupted"]) == (2, True)
    assert document["commit"] == "here", "of the sources that ran, whatever became of them since"


def test_a_sweep_tells_how_its_measures_are_spread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(plan: Plan) -> RunSummary:
        return RunSummary(plan, spreads={"wait": [plan.seed * 100.0, 10.0]})

    for output in (Format.JSON, Format.TABLE):
        shown = Sweep(
            number=2, varied=False, commit="", save=tmp_path, output=output, go_on=lambda done: ""
        )
        assert shown.run(numbered(5, 6), swept(measured)) == 0
        out = capsys.readouterr().out
        if output is Format.JSON:
            told = {"count": 4, "p50_ms": 50.0, "p90_ms": 600.0, "max_ms": 600.0}
            assert json.loads(out)["measures"] == {"wait": told}
        else:
            assert ["wait", "4", "50.0", "600.0", "600.0"] in [
                line.split() for line in out.splitlines()
            ]


def test_the_first_plan_of_each_kind_of_failure_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(plan: Plan) -> RunSummary:
        return RunSummary(plan, Broken("I-9", f"offset {plan.seed}", "what nodes said"))

    shown = Sweep(
        number=3,
        varied=False,
        commit="here",
        save=tmp_path,
        output=Format.JSON,
        go_on=lambda done: "",
    )
    assert shown.run(numbered(5, 6, 7), swept(broken)) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found == {
        "invariant": "I-9",
        "what": "offset 5",
        "schedules": 3,
        "seeds": [5, 6, 7],
        "plan": str(tmp_path / "seed-5.json"),
    }
    assert json.loads((tmp_path / "seed-5.json").read_text())["seed"] == 5
