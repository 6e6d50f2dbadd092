"""A run of transfers: movers and readers of several clients, brokers that are killed one after the
other, cuts, and a verdict.

One thread kills and starts. Another one, the auditor, takes the cuts: it asks for the high
watermarks every second, and now and then in quiescence, when all movers pause.
"""

import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_chaos.transfers.book import Book
from strandline_chaos.transfers.judge import TransferVerdict, judge_transfers
from strandline_cli.errors import CliError
from strandline_cli.nemesis.parties import Party, reading_for

if TYPE_CHECKING:
    from strandline.sync import Consumer
    from strandline_local.local_cluster import LocalCluster

TOPIC: Final = "transfers"
PARTITIONS: Final = 6
ACCOUNTS: Final = 20
OURS: Final = (sys.executable, "-m", "strandline_chaos.transfers.ours")
_TICK_S: Final = 0.1
_CUT_S: Final = 1.0
_CALL_MS: Final = 30_000
_BEGIN_S: Final = 90.0
_PAUSE_S: Final = 90.0
_END_S: Final = 120.0
_STATUS_S: Final = 10.0
_DOWN_S: Final = (1.0, 4.0)
"""The least and the longest time that a killed broker is down."""


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """The choices of a run."""

    seconds: float
    seed: int
    kill_every_s: float = 10.0
    quiet_every_s: float = 20.0
    rate: float = 20.0
    """Transfers a second of each mover."""
    movers: Sequence[Sequence[str]] = (OURS,) * 3
    """Commands, each of one mover."""
    readers: Sequence[Sequence[str]] = (OURS,) * 3


@dataclass(frozen=True, slots=True)
class TransferOutcome:
    verdict: TransferVerdict
    kills: int
    died: Sequence[str]
    """Brokers that ended without being killed."""
    notes: Sequence[str] = ()
    """What movers and readers met, for people."""

    @property
    def word(self) -> str:
        return "broken" if self.died else self.verdict.word

    def document(self) -> dict[str, object]:
        return {
            **self.verdict.document(),
            "verdict": self.word,
            "kills": self.kills,
            "died": list(self.died),
        }


@dataclass
class TransferRun:
    """One run on `cluster`, whose end is the caller's."""

    cluster: "LocalCluster"
    plan: TransferPlan
    say: Callable[[str], None]
    book: Book = field(default_factory=Book)
    movers: list[Party] = field(default_factory=list)
    readers: list[Party] = field(default_factory=list)
    kills: int = 0
    died: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._audit_failed = ""
        self._starts_at: dict[int, float] = {}
        """Times at which killed brokers are started again."""

    def run(self) -> TransferOutcome:
        self.cluster.up(wait_s=_BEGIN_S)
        self._create_topic()
        self._start_parties()
        auditor = threading.Thread(target=self._audit, name="auditor", daemon=True)
        auditor.start()
        self._break()
        self._ending.set()
        auditor.join(_PAUSE_S + _CALL_MS / 1000)
        incomplete = self._audit_failed or ("the auditor did not end" if auditor.is_alive() else "")
        stuck, not_read = self._end()
        verdict = judge_transfers(self.book, PARTITIONS, stuck, incomplete or not_read)
        return TransferOutcome(verdict, self.kills, tuple(self.died), tuple(self.book.notes))

    def stop(self) -> None:
        """Ends every program, after an interruption too."""
        self._ending.set()
        for party in [*self.movers, *self.readers]:
            party.kill()

    def _create_topic(self) -> None:
        from strandline import NewTopic
        from strandline.sync import Admin

        topic = NewTopic(
            TOPIC,
            num_partitions=PARTITIONS,
            replication_factor=min(3, len(self.cluster.broker_ids)),
            config={"min.insync.replicas": str(min(2, len(self.cluster.broker_ids)))},
        )
        with Admin(self.cluster.bootstrap) as admin:
            admin.create_topics([topic])

    def _start_parties(self) -> None:
        for number, command in enumerate(self.plan.readers, 1):
            self._start_reader(f"reader-{number}", command)
        for number, command in enumerate(self.plan.movers, 1):
            name = f"mover-{number}"
            argv = self._argv(command, "mover", name, number)
            self.movers.append(Party(name, argv, self.book, self._log(name)))
        deadline = time.monotonic() + _BEGIN_S
        for party in [*self.readers, *self.movers]:
            while not party.is_ready.wait(_TICK_S):
                self._check_parties([*self.movers, *self.readers])
                if time.monotonic() > deadline:
                    raise CliError(f"no verdict: {party.name} was not ready in {_BEGIN_S:.0f} s")

    def _start_reader(self, name: str, command: Sequence[str]) -> Party:
        argv = self._argv(command, "reader", reading_for(self.book, name), 0)
        reader = Party(name, argv, self.book, self._log(name))
        self.readers.append(reader)
        return reader

    def _argv(self, command: Sequence[str], role: str, name: str, number: int) -> list[str]:
        words = (role, self.cluster.bootstrap, TOPIC, PARTITIONS, ACCOUNTS, name)
        numbers = (self.plan.seed + number, self.plan.rate)
        return [*command, *map(str, words), *map(str, numbers)]

    def _log(self, name: str) -> Path:
        return self.cluster.directory / "logs" / f"{name}.log"

    def _check_parties(self, parties: Sequence[Party]) -> None:
        for party in parties:
            if why := party.why_ended():
                raise CliError(f"no verdict: {why}")

    # Kills.

    def _break(self) -> None:
        rng = random.Random(self.plan.seed)
        begun = time.monotonic()
        kill_at, status_at = self.plan.kill_every_s, _STATUS_S
        while (now_s := time.monotonic() - begun) < self.plan.seconds:
            if now_s >= kill_at:
                kill_at += self.plan.kill_every_s
                self._kill(rng, now_s)
            if now_s >= status_at:
                status_at += _STATUS_S
                self._status(now_s)
            self._start_dead(now_s)
            self._check_parties([*self.movers, *self.readers])
            time.sleep(_TICK_S)

    def _kill(self, rng: random.Random, now_s: float) -> None:
        living = [i for i in self.cluster.broker_ids if i not in self._starts_at]
        if not living:
            return
        victim, down_s = rng.choice(living), rng.uniform(*_DOWN_S)
        self.say(f"{now_s:7.1f} s  kill broker {victim}, down for {down_s:.1f} s")
        self.cluster.kill(victim)
        self._starts_at[victim] = now_s + down_s
        self.kills += 1

    def _start_dead(self, now_s: float) -> None:
        for broker_id in self.cluster.broker_ids:
            at = self._starts_at.get(broker_id)
            if at is None and self.cluster.process(broker_id).pid is None:
                how = self.cluster.exit_report(broker_id)
                self.say(f"{now_s:7.1f} s  NOT IN THE PLAN: {how}")
                self.died.append(" ".join(how.split()))
                at = now_s
            if at is not None and at <= now_s:
                self._starts_at.pop(broker_id, None)
                self.cluster.launch(broker_id)

    def _status(self, now_s: float) -> None:
        self.say(
            f"{now_s:7.1f} s  {self.book.count('committed'):,} committed,"
            f" {self.book.count('aborted'):,} aborted, {self.book.count('unknown'):,} unknown,"
            f" {len(self.book.cuts)} cuts"
        )

    # Cuts.

    def _audit(self) -> None:
        from strandline.errors import StrandlineError

        quiet_at = time.monotonic() + self.plan.quiet_every_s
        with self._asker("read_uncommitted") as asker:
            while not self._ending.wait(_CUT_S):
                try:
                    if time.monotonic() >= quiet_at:
                        self._quiet_cut(asker)
                        quiet_at = time.monotonic() + self.plan.quiet_every_s
                    else:
                        self._cut(asker, is_quiet=False)
                except StrandlineError as why:
                    self.say(f"no cut: {why}")

    def _asker(self, isolation: str) -> "Consumer":
        from strandline import TopicPartition
        from strandline.sync import Consumer

        asker = Consumer(
            bootstrap_servers=self.cluster.bootstrap,
            isolation_level=isolation,  # type: ignore[arg-type]
            request_timeout_ms=_CALL_MS,
        )
        self._places = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
        return asker

    def _cut(self, asker: "Consumer", *, is_quiet: bool) -> dict[int, int]:
        answered = len(self.book.answered)
        ends = {tp.partition: end for tp, end in asker.end_offsets(self._places).items()}
        self.book.cut(ends, answered, is_quiet=is_quiet)
        return ends

    def _quiet_cut(self, asker: "Consumer") -> None:
        for mover in self.movers:
            mover.tell("pause")
        try:
            deadline = time.monotonic() + _PAUSE_S
            for mover in self.movers:
                if not mover.is_paused.wait(max(0.0, deadline - time.monotonic())):
                    self._audit_failed = f"{mover.name} did not pause in {_PAUSE_S:.0f} s"
                    return
            self._cut(asker, is_quiet=True)
        finally:
            for mover in self.movers:
                mover.tell("go")

    # The end.

    def _end(self) -> tuple[list[str], str]:
        """Ends the movers, then the readers. Returns what hangs, and why readers are not done."""
        self.say("all movers end; readers go to the end, all is read back")
        for broker_id in list(self._starts_at):
            self._starts_at.pop(broker_id)
            self.cluster.launch(broker_id)
        self.cluster.wait_ready(wait_s=_END_S)
        if why := self._end_parties(self.movers):
            return [], why
        with self._asker("read_uncommitted") as asker:
            ends = self._cut(asker, is_quiet=True)
        stuck = self._wait_stable(ends)
        self._start_reader("last-reader", OURS)
        if not stuck:
            self._wait_read(ends)
        return stuck, self._end_parties(self.readers)

    def _end_parties(self, parties: Sequence[Party]) -> str:
        """Tells them to stop. The reason why one has not ended well; empty if all have."""
        for party in parties:
            party.tell("stop")
        for party in parties:
            if not party.wait(_END_S):
                return f"{party.name} did not end in {_END_S:.0f} s"
            if party.status != 0:
                return party.why_ended()
        return ""

    def _wait_read(self, ends: dict[int, int]) -> None:
        """Waits until every reader is at the end. The verdict says who is not."""
        deadline = time.monotonic() + _END_S
        while not all(reading.reaches(ends) for reading in self.book.readings.values()):
            self._check_parties(self.readers)
            if time.monotonic() > deadline:
                return
            time.sleep(_TICK_S)

    def _wait_stable(self, ends: dict[int, int]) -> list[str]:
        """Waits until no transaction is open below `ends`; what hangs at the deadline, in words."""
        deadline = time.monotonic() + _END_S
        with self._asker("read_committed") as asker:
            while True:
                stable = {tp.partition: end for tp, end in asker.end_offsets(self._places).items()}
                stuck = [
                    f"partition {partition}: the last stable offset is {stable[partition]}, the"
                    f" high watermark was {end}"
                    for partition, end in ends.items()
                    if stable[partition] < end
                ]
                if not stuck or time.monotonic() > deadline:
                    return stuck
                time.sleep(_TICK_S)
