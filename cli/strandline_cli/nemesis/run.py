"""A chaos run: start, break and heal by plan, wait for progress, read back, judge.

One thread does it all in order. Faults run by themselves once they have begun, and the workload is
a process of its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strandline_chaos.faults import plan
from strandline_chaos.faults.plan import Fault
from strandline_chaos.faults.verdict import FAULT, LOSS_OVER, Findings, LiveVerdict, judge
from strandline_chaos.history import Event
from strandline_cli.errors import CliError
from strandline_cli.nemesis.questions import Questions
from strandline_cli.nemesis.target import Target
from strandline_cli.nemesis.workload_process import WorkloadProcess

READ_BACK_S: Final = 120.0
_TICK_S: Final = 0.1
_LOOK_S: Final = 0.5
_BEGIN_S: Final = 90.0
_RECOVER_S: Final = 180.0
_GATE_S: Final = 45.0
_BUSY: Final = 20
"""Acknowledged records of each key with which the workload counts as under way."""
_STATUS_S: Final = 10.0
RECORDS_MAX: Final = 120_000
"""Limit of the records of a run; all of them are kept in memory until they are judged."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The run's choices beside its faults."""

    topic: str
    seconds: float
    brokers: int
    keys: int = 3
    writers: int = 2
    groups: int = 2
    rate_max: float = 100.0

    @property
    def rate(self) -> float:
        """Records a second of each writer; fewer in a long run, whose history has to fit."""
        return min(self.rate_max, RECORDS_MAX / self.writers / self.seconds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The history of a run and the verdict on it."""

    events: Sequence[Event]
    begun_ns: int
    """Time of the plan's second 0."""
    verdict: LiveVerdict
    skipped: Sequence[str] = ()


@dataclass(slots=True)
class _Running:
    fault: Fault
    victims: list[str]
    ends_s: float


@dataclass
class ChaosRun:
    """One run against `target`, whose end is the caller's: it calls `target.close`."""

    target: Target
    faults: Sequence[Fault]
    settings: Settings
    directory: Path
    say: Callable[[str], None]
    questions: Callable[[str, str, int], Questions] = Questions
    start: Callable[[Sequence[str], Path], WorkloadProcess] = WorkloadProcess
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    running: list[_Running] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._work: WorkloadProcess | None = None
        self._begun_s = 0.0
        self._shift_s = 0.0
        """Delay of the plan so far. What begins late delays all that follows, so that faults which
        the plan keeps apart stay apart.
        """
        self._next_status_s = _STATUS_S
        self._next_look_s = 0.0

    def run(self) -> Outcome:
        self.target.begin()
        settings = self.settings
        self._ask = self.questions(self.target.bootstrap, settings.topic, settings.brokers)
        self._work = self.start(self._command(), self.directory / "workload.log")
        self._wait_busy()
        self._begun_s = self.now()
        begun_ns = int(self.now() * 1e9)
        self._inject()
        no_progress = self._wait_progress()
        found = self._end_workload(no_progress)
        events = self.work.history()
        return Outcome(events, begun_ns, judge(events, found), tuple(self.skipped))

    @property
    def work(self) -> WorkloadProcess:
        assert self._work is not None
        return self._work

    def _command(self) -> list[str]:
        settings = self.settings
        options = {
            "--bootstrap": self.target.inner_bootstrap,
            "--topic": settings.topic,
            "--format": "events",
            "--partitions": settings.keys,
            "--writers": settings.writers,
            "--rate": settings.rate,
            "--groups": settings.groups,
            "--replication-factor": min(3, settings.brokers),
            "--min-insync-replicas": min(2, settings.brokers),
            # It ends by `stop`: this is only the end of a workload that was forgotten.
            "--seconds": settings.seconds * 2 + 3600,
            "--read-back-seconds": READ_BACK_S,
        }
        return self.target.workload([str(word) for pair in options.items() for word in pair])

    def _wait_busy(self) -> None:
        deadline = self.now() + _BEGIN_S
        while min(self.work.acknowledged[k] for k in range(self.settings.keys)) < _BUSY:
            self._check_workload()
            if self.now() > deadline:
                raise CliError(
                    f"no verdict: the workload did not get under way within {_BEGIN_S:.0f} s"
                )
            self.sleep(_TICK_S)

    def _check_workload(self) -> None:
        if why := self.work.why_ended():
            raise CliError(f"no verdict: {why}")

    # Faults.

    @property
    def _now_s(self) -> float:
        return self.now() - self._begun_s - self._shift_s

    def _inject(self) -> None:
        waiting = list(self.faults)
        while waiting or self.running or self._now_s < self.settings.seconds:
            for each in [each for each in self.running if each.ends_s <= self._now_s]:
                self._heal(each)
            if waiting and waiting[0].at_s <= self._now_s:
                self._strike(waiting.pop(0))
            self._look_around()
            self.sleep(_TICK_S)

    def _look_around(self) -> None:
        self._check_workload()
        if self.now() >= self._next_look_s:
            self._start_dead()
        if self._now_s >= self._next_status_s:
            self._next_status_s += _STATUS_S
            self.say(f"{self._now_s:7.1f} s  {sum(self.work.acknowledged.values()):,} acknowledged")

    def _start_dead(self) -> None:
        """Starts each server that no fault has ended."""
        self._next_look_s = self.now() + _LOOK_S
        dead_by_plan = {
            name
            for each in self.running
            if each.fault.kind in (plan.KILL, plan.POWER)
            for name in each.victims
        }
        for name in self.target.dead([n for n in self.target.names if n not in dead_by_plan]):
            how = self.target.how_it_ended(name)
            self.say(f"{self._now_s:7.1f} s  NOT IN THE PLAN: {how}")
            self.died.append(f"{name}: {' '.join(how.split())}")
            self.target.start(name)

    def _strike(self, fault: Fault) -> None:
        self._start_dead()  # before the fault makes its end look planned
        if fault.kind == plan.POWER and not self._passes_gate(fault):
            return
        victims = self._victims(fault)
        if not victims:
            self._skip(fault, "every broker is struck already")
            return
        named = "" if fault.victim == victims[0] else f" = {', '.join(victims)}"
        detail = f" ({fault.detail})" if fault.detail else ""
        self._delay_plan(fault)
        self.say(
            f"{self._now_s:7.1f} s  begin {fault.number}: {fault.kind} {fault.victim}{named}"
            f"{detail}, {fault.lasts_s:.1f} s"
        )
        self._note(fault, victims, "begin")
        # Known before it begins: what is half done is taken back too.
        self.running.append(_Running(fault, victims, fault.ends_s))
        self.target.strike(fault, victims)
        self._delay_plan(fault)

    def _delay_plan(self, fault: Fault) -> None:
        """Delay what follows by the time that this fault is late."""
        self._shift_s += max(0.0, self._now_s - fault.at_s)

    def _passes_gate(self, fault: Fault) -> bool:
        """A loss of power strikes replicas that are all in sync: one that is not yet, and lost what
        it had before, would make two losses of one.
        """
        begun = self.now()
        while why := self._ask.out_of_sync():
            self._look_around()
            if self.now() - begun > _GATE_S:
                self._skip(fault, why)
                return False
            self.sleep(_LOOK_S)
        return True

    def _skip(self, fault: Fault, why: str) -> None:
        self._delay_plan(fault)
        self.say(f"{self._now_s:7.1f} s  skip {fault.number}: {fault.kind} {fault.victim}: {why}")
        self.skipped.append(f"{fault.number} ({fault.kind} {fault.victim}): {why}")

    def _victims(self, fault: Fault) -> list[str]:
        if fault.victim == plan.EVERY_BROKER:
            return [name for name in self.target.names if name != plan.CONTROLLER]
        if fault.victim != plan.LEADER:
            return [fault.victim]
        leader = self._ask.leader() or fault.spare
        struck = {name for each in self.running for name in each.victims}
        count = self.settings.brokers
        candidates = [f"broker-{(leader - 1 + i) % count + 1}" for i in range(count)]
        return [name for name in candidates if name not in struck][:1]

    def _heal(self, each: _Running) -> None:
        fault = each.fault
        self.target.heal(fault, each.victims)
        self.running.remove(each)
        self._note(fault, each.victims, "end")
        self.say(f"{self._now_s:7.1f} s  end   {fault.number}: {fault.kind} {fault.victim}")
        if fault.kind == plan.POWER and fault.victim == plan.EVERY_BROKER:
            begun = self.now()
            if why := self._wait_in_sync():
                self.say(f"{self._now_s:7.1f} s  still: {why}")
            else:
                self.work.note(LOSS_OVER, fault.number)
            self._shift_s += self.now() - begun

    def _note(self, fault: Fault, victims: Sequence[str], phase: str) -> None:
        self.work.note(FAULT, {**fault.document(), "victims": list(victims), "phase": phase})

    # The end.

    def _wait_in_sync(self) -> str:
        deadline = self.now() + _RECOVER_S
        while why := self._ask.out_of_sync():
            self._look_around()
            if self.now() > deadline:
                return why
            self.sleep(_LOOK_S)
        return ""

    def _wait_progress(self) -> str:
        """What is missing after the last fault; empty if the cluster is whole and every key gets
        new records.
        """
        self.say(f"{self._now_s:7.1f} s  all healed; waiting for progress")
        if why := self._wait_in_sync():
            return f"{why}, {_RECOVER_S:.0f} s after the last fault"
        before = self.work.acknowledged.copy()
        deadline = self.now() + _RECOVER_S
        keys = range(self.settings.keys)
        while stuck := [k for k in keys if self.work.acknowledged[k] < before[k] + _BUSY]:
            self._look_around()
            if self.now() > deadline:
                return f"no new record of key {stuck} within {_RECOVER_S:.0f} s"
            self.sleep(_TICK_S)
        return ""

    def _end_workload(self, no_progress: str) -> Findings:
        self.say(f"{self._now_s:7.1f} s  writing ends; groups go to the end, all is read back")
        self.target.end_workload(self.work.pid)
        incomplete = ""
        if not self.work.wait(2 * READ_BACK_S):
            incomplete = "the workload did not end"
        elif self.work.status != 0:
            # Its own verdict does not know of permitted losses; what it lacks, the history lacks.
            incomplete = "" if self.work.status == 1 else self.work.why_ended()
        losses = self._ask.losses()
        if losses is None:
            incomplete = incomplete or "the cluster did not say what it has lost"
            losses = (), False
        return Findings(losses[0], losses[1], tuple(self.died), no_progress, incomplete)

    def stop(self) -> None:
        """End the workload and heal what is still broken, after an interruption too."""
        if self._work is not None and self._work.status is None:
            self._work.kill()
