"""A chaos run against a cluster that exists only here, by a clock that moves when the run waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strandline_chaos.faults.plan import CONTROLLER, EVERY_BROKER, KILL, LEADER, PAUSE, POWER, Fault
from strandline_chaos.faults.verdict import FAULT, LOSS_OVER, LossReport
from strandline_chaos.history import Event
from strandline_cli.errors import ClusterError
from strandline_cli.nemesis.run import ChaosRun, Settings
from support.live_history import good_history

if TYPE_CHECKING:
    from collections.abc import Sequence

BROKERS = ("broker-1", "broker-2", "broker-3")


class Machine:
    """The clock, the cluster, its answers and its workload, all in one."""

    title = flag = bootstrap = inner_bootstrap = ""
    names = (*BROKERS, CONTROLLER)
    pid = 1

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.said: list[str] = []
        self.done: list[tuple[float, str]] = []
        self.ended_servers: set[str] = set()
        self.dies_at: dict[float, str] = {}
        self.leads: int | None = 2
        self.answers_after_s = 0.0
        self.lacks: dict[tuple[float, float], str] = {}
        """What is out of sync between two times."""
        self.stuck_from_s = float("inf")
        """The time from which no record is acknowledged."""
        self.strike_takes_s = 0.0
        self.ended = ""
        self.status = 0
        self.losses_known: tuple[tuple[LossReport, ...], bool] | None = ((), False)
        self.events = list(good_history())

    # The clock.

    def now(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for at_s, name in list(self.dies_at.items()):
            if at_s <= self.since_s:
                self.ended_servers.add(self.dies_at.pop(at_s))
                assert name

    @property
    def since_s(self) -> float:
        return round(self.now_s - 1000.0, 3)

    # The cluster.

    def begin(self) -> None:
        self.done.append((self.since_s, "begin"))

    def workload(self, options: Sequence[str]) -> list[str]:
        return list(options)

    def end_workload(self, pid: int) -> None:
        self.done.append((self.since_s, "end workload"))

    def strike(self, fault: Fault, victims: Sequence[str]) -> None:
        self.done.append((self.since_s, f"{fault.kind} {' '.join(victims)}"))
        self.now_s += self.strike_takes_s
        if fault.kind in (KILL, POWER):
            self.ended_servers |= set(victims)

    def heal(self, fault: Fault, victims: Sequence[str]) -> None:
        self.done.append((self.since_s, f"heal {fault.kind} {' '.join(victims)}"))
        self.ended_servers -= set(victims)

    def dead(self, names: Sequence[str]) -> Sequence[str]:
        return [name for name in names if name in self.ended_servers]

    def how_it_ended(self, name: str) -> str:
        return "ended with exit status 70"

    def start(self, name: str) -> None:
        self.done.append((self.since_s, f"start {name}"))
        self.ended_servers.remove(name)

    def close(self) -> None:
        raise AssertionError("the caller's")

    # Its answers.

    def leader(self) -> int | None:
        self.now_s += self.answers_after_s
        return self.leads

    def out_of_sync(self) -> str:
        found = [w for (start, end), w in self.lacks.items() if start <= self.since_s < end]
        return found[0] if found else ""

    def losses(self) -> tuple[tuple[LossReport, ...], bool] | None:
        return self.losses_known

    # Its workload.

    @property
    def acknowledged(self) -> Counter[int]:
        records = int(100 * min(self.since_s, self.stuck_from_s)) + 100
        return Counter(dict.fromkeys(range(3), records))

    def why_ended(self) -> str:
        return self.ended

    def note(self, f: str, value: object) -> None:
        time_ns = self.events[-1].time_ns + 1
        self.events.append(Event(len(self.events), time_ns, 0, "info", f, value))

    def wait(self, deadline_s: float) -> bool:
        return self.status is not None

    def history(self) -> list[Event]:
        return self.events


def chaos(machine: Any, *faults: Fault, seconds: float = 30) -> ChaosRun:
    return ChaosRun(
        target=machine,
        faults=faults,
        settings=Settings(topic="t", seconds=seconds, brokers=3),
        directory=Path("nowhere"),
        say=machine.said.append,
        questions=lambda *_: machine,
        start=lambda *_: machine,
        now=machine.now,
        sleep=machine.sleep,
    )


def happened(machine: Machine) -> list[tuple[int, str]]:
    """Everything that was done to the cluster, by the second."""
    return [(round(at_s), what) for at_s, what in machine.done]


PAUSES = Fault(1, PAUSE, "broker-1", at_s=3, lasts_s=4)


def test_faults_begin_and_end_as_the_plan_says_and_are_noted() -> None:
    machine = Machine()
    outcome = chaos(machine, PAUSES, Fault(2, KILL, CONTROLLER, at_s=5, lasts_s=6)).run()
    assert happened(machine) == [
        (0, "begin"),
        (3, "pause broker-1"),
        (5, "kill controller"),
        (7, "heal pause broker-1"),
        (11, "heal kill controller"),
        (30, "end workload"),
    ]
    notes = [(e.value["number"], e.value["phase"]) for e in outcome.events if e.f == FAULT]
    assert notes[2:] == [(1, "begin"), (2, "begin"), (1, "end"), (2, "end")]
    assert outcome.verdict.word == "sound", outcome.verdict.why


def test_the_leader_is_struck_unless_it_is_struck_already() -> None:
    machine = Machine()
    leader = Fault(2, KILL, LEADER, at_s=4, lasts_s=2, spare=1)
    machine.leads = 1
    chaos(machine, PAUSES, leader).run()
    assert (4, "kill broker-2") in happened(machine)
    machine = Machine()
    machine.leads = None
    chaos(machine, replace(leader, spare=3)).run()
    assert (4, "kill broker-3") in happened(machine), "no leader is known"


def test_what_begins_late_delays_all_that_follows() -> None:
    machine = Machine()
    machine.strike_takes_s = 5
    chaos(machine, PAUSES, Fault(2, KILL, "broker-2", at_s=8, lasts_s=1)).run()
    assert happened(machine)[1:5] == [
        (3, "pause broker-1"),
        (12, "heal pause broker-1"),
        (13, "kill broker-2"),
        (19, "heal kill broker-2"),
    ]


def test_the_printed_times_never_go_back() -> None:
    machine = Machine()
    machine.answers_after_s = machine.strike_takes_s = 5
    chaos(machine, PAUSES, Fault(2, KILL, LEADER, at_s=4, lasts_s=2), seconds=40).run()
    times = [float(line.split()[0]) for line in machine.said]
    assert times == sorted(times), machine.said
    assert times[:2] == [3.0, 4.0], machine.said


def test_a_loss_of_power_waits_for_replicas_in_sync_or_is_skipped() -> None:
    power = Fault(1, POWER, "broker-1", at_s=3, lasts_s=2)
    machine = Machine()
    machine.lacks[0, 9] = "t/0 has in-sync replicas [2]"
    assert chaos(machine, power).run().skipped == ()
    assert happened(machine)[1:3] == [(9, "power broker-1"), (11, "heal power broker-1")]
    machine = Machine()
    machine.lacks[0, 60] = "t/0 has in-sync replicas [2]"
    outcome = chaos(machine, power).run()
    assert outcome.skipped == ("1 (power broker-1): t/0 has in-sync replicas [2]",)
    assert [what for _, what in happened(machine)] == ["begin", "end workload"]


def test_loss_is_permitted_once_all_brokers_have_lost_their_power() -> None:
    for victim, over in ((EVERY_BROKER, 1), ("broker-1", 0)):
        machine = Machine()
        machine.lacks[5, 20] = "broker 1 is not in service"
        outcome = chaos(machine, Fault(1, POWER, victim, at_s=3, lasts_s=2)).run()
        assert sum(e.f == LOSS_OVER for e in outcome.events) == over
    assert (3, "power broker-1 broker-2 broker-3") in happened(machine) or over == 0


def test_a_process_that_dies_by_itself_is_started_and_breaks_the_promise() -> None:
    machine = Machine()
    machine.dies_at[2.0] = "broker-3"
    outcome = chaos(machine, PAUSES).run()
    assert (2, "start broker-3") in happened(machine)
    assert outcome.verdict.broken == ["died"]
    assert outcome.verdict.anomalies["died"].examples == ["broker-3: ended with exit status 70"]


def test_a_process_that_dies_just_before_it_is_killed_breaks_the_promise_too() -> None:
    machine = Machine()
    machine.dies_at[3.1] = "broker-3"
    kill = Fault(1, KILL, "broker-3", at_s=3.2, lasts_s=2)
    outcome = chaos(machine, kill).run()
    done = [what for _, what in machine.done]
    assert done.index("start broker-3") < done.index("kill broker-3")
    assert outcome.verdict.broken == ["died"]


def test_a_cluster_that_does_not_recover_breaks_the_promise() -> None:
    machine = Machine()
    machine.lacks[7, 9999] = "broker 1 is not in service"
    assert chaos(machine, PAUSES).run().verdict.broken == ["no_progress"]
    machine = Machine()
    machine.stuck_from_s = 20
    verdict = chaos(machine, PAUSES).run().verdict
    assert verdict.broken == ["no_progress"]
    assert "no new record of key [0, 1, 2]" in verdict.anomalies["no_progress"].examples[0]


def test_without_a_workload_or_its_end_there_is_no_verdict() -> None:
    machine = Machine()
    machine.ended = "the workload ended with exit status 2: error: why"
    with pytest.raises(ClusterError, match="no verdict: the workload ended with exit status 2"):
        chaos(machine, PAUSES).run()
    machine = Machine()
    machine.stuck_from_s = -1
    with pytest.raises(ClusterError, match="no verdict: the workload did not get under way"):
        chaos(machine, PAUSES).run()
    for status, known, why in (
        (None, ((), False), "the workload did not end"),
        (0, None, "the cluster did not say what it has lost"),
    ):
        machine = Machine()
        machine.status, machine.losses_known = status, known  # type: ignore[assignment]
        verdict = chaos(machine, PAUSES).run().verdict
        assert (verdict.word, verdict.why) == ("incomplete", why)
