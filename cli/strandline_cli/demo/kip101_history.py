"""The two classic histories of replication by high watermark, played on real processes.

A leads, B and C follow. A record `m` is acknowledged: all three hold it. The high watermarks of B
and C are still below it, because they learn of it with a later answer. Then B is paused (SIGSTOP),
A is killed, and B is elected. C follows B, which does not answer.

A follower of the old kind truncates its log at its high watermark, so it loses `m`. A follower that
uses leader epochs asks B first, and keeps its records until B answers. B is killed, and C leads.

*Loss*: A and B return and follow C. Does any replica still have `m`?

*Divergence*: C takes another record, and A returns. Do two replicas differ at one offset?
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from strandline_cli.client import run_client
from strandline_cli.demo.disk_log import checkpointed_watermark, values_on_disk
from strandline_cli.errors import CliError
from strandline_local import probe
from strandline_local.local_cluster import LocalCluster

T = TypeVar("T")

TOPIC: Final = "history"
A, B, C = 1, 2, 3
FIRST: Final = ("w0", "w1", "w2")
ACKNOWLEDGED: Final = "m"
LATER: Final = "n"
STEP_S: Final = 30.0
_POLL_S: Final = 0.02
_ASK_S: Final = 10.0

BROKER_CONFIG: Final = {
    # A follower that has everything is answered only after that time, so it learns of a new high
    # watermark long after the record itself: the window in which both histories happen.
    "replica.fetch.wait.max.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "100",
}
# No paused broker is fenced for its silence.
CONTROLLER_CONFIG: Final = {
    "broker.session.timeout.ms": "60000",
    # More than there are: the topic of groups is not made. With an answer about it C would learn
    # that `m` is committed, and the history would not happen.
    "offsets.topic.replication.factor": "4",
}


@dataclass(slots=True)
class HistoryResult:
    """The outcome of a history."""

    lost: list[str]
    """Acknowledged values that no consumer can read any more."""
    diverged: dict[int, tuple[str, str]]
    """Offsets at which two replicas hold different values."""


@dataclass(slots=True)
class History:
    """One history under one kind of truncation, on a separate cluster."""

    directory: Path
    truncation: str
    is_divergence: bool
    tell: Callable[[str], None]
    show: Callable[["History"], None]
    cluster: LocalCluster = field(init=False)

    def __post_init__(self) -> None:
        config = {**BROKER_CONFIG, "replica.truncation": self.truncation}
        if self.truncation == "high-watermark":
            config["development.unsafe"] = "true"
        self.cluster = LocalCluster.create(
            self.directory,
            brokers=3,
            port=0,
            broker_config=config,
            controller_config=CONTROLLER_CONFIG,
        )

    def play(self) -> HistoryResult:
        """Start a cluster, play, and stop it."""
        try:
            self.cluster.up()
            self._until_c_leads()
            if self.is_divergence:
                return self._divergence()
            return self._loss()
        finally:
            self.cluster.kill_all()

    def logs(self) -> dict[int, dict[int, str]]:
        """Each broker's log as it is on disk."""
        return {i: values_on_disk(self.cluster.data_directory(i), TOPIC, 0) for i in (A, B, C)}

    # The common beginning.

    def _until_c_leads(self) -> None:
        run_client(self._create())
        for value in (*FIRST, ACKNOWLEDGED):
            self._send(value)
        self.tell(f"A leads. {ACKNOWLEDGED!r} is acknowledged: A, B and C hold it.")
        where = len(FIRST)
        watermark = self._replica_of_c().high_watermark
        if watermark > where:
            raise CliError(
                f"C knows already that {ACKNOWLEDGED!r} is committed (high watermark"
                f" {watermark}): the history cannot be played; try again"
            )
        self._await(lambda: self._checkpoint_of_a() > where, "A notes its high watermark on disk")
        self.show(self)

        before = self._epoch_of_c()
        self.cluster.pause(B)
        self.cluster.kill(A)
        self._await(lambda: self._leader_seen_by_c() == B, "the controller elects B")
        self._await(lambda: self._epoch_of_c() > before, "C follows B")
        if self.truncation == "high-watermark":
            self._await(lambda: self._end_of_c() <= where, "C cuts its log at its high watermark")
        self.tell("B is paused, A is killed, B is elected. C follows B and gets no answer.")
        self.show(self)

        self.cluster.kill(B)
        self._await(lambda: self._leader_seen_by_c() == C, "the controller elects C")
        self.tell("B is killed. C was in the ISR, so it leads.")

    # The two ends.

    def _loss(self) -> HistoryResult:
        for broker in (B, A):
            self.cluster.start(broker)
        self._await(lambda: self._isr_seen_by_c() == {A, B, C}, "A and B are in sync again")
        self.tell("A and B are back and follow C.")
        self.show(self)
        readable = run_client(self._read())
        sent = (*FIRST, ACKNOWLEDGED)
        return HistoryResult(
            [value for value in sent if value not in readable], self._differences()
        )

    def _divergence(self) -> HistoryResult:
        self._send("m'")
        self.tell('C takes another record, "m\'". A comes back and follows C.')
        self.cluster.start(A)
        self._await(lambda: {A, C} <= self._isr_seen_by_c(), "A is in sync again")
        self._send(LATER)
        self._await(lambda: LATER in self.logs()[A].values(), "A has fetched the last record")
        self.show(self)
        return HistoryResult([], self._differences())

    def _differences(self) -> dict[int, tuple[str, str]]:
        logs = self.logs()
        return {
            offset: (logs[A][offset], logs[C][offset])
            for offset in sorted(logs[A].keys() & logs[C].keys())
            if logs[A][offset] != logs[C][offset]
        }

    # Questions to the cluster.

    def _await(self, question: Callable[[], bool], what: str) -> None:
        deadline = self.cluster.patience(STEP_S)
        unheard = ""
        while True:
            try:
                if question():
                    return
                unheard = ""
            except probe.NoAnswer as why:
                unheard = f" ({why})"
            if deadline.is_over():
                raise CliError(f"this did not happen within {STEP_S:.0f} s: {what}{unheard}")
            time.sleep(_POLL_S)

    def _checkpoint_of_a(self) -> int:
        return checkpointed_watermark(self.cluster.data_directory(A), TOPIC, 0)

    def _partition_seen_by_c(self) -> tuple[int, set[int]]:
        answer = probe.ask_metadata(self.cluster.grpc_address(C), _ASK_S, topics=True)
        (topic,) = (t for t in answer.topics if t.name == TOPIC)
        return topic.partitions[0].leader, set(topic.partitions[0].isr)

    def _leader_seen_by_c(self) -> int:
        return self._partition_seen_by_c()[0]

    def _isr_seen_by_c(self) -> set[int]:
        return self._partition_seen_by_c()[1]

    def _replica_of_c(self) -> probe.Replica:
        return probe.replicas_of(self.cluster.grpc_address(C), _ASK_S)[TOPIC, 0]

    def _end_of_c(self) -> int:
        return self._replica_of_c().log_end_offset

    def _epoch_of_c(self) -> int:
        return self._replica_of_c().leader_epoch

    # Actions on the cluster.

    async def _create(self) -> None:
        from strandline import Admin, NewTopic

        enough = "1" if self.is_divergence else "2"
        config = {"min.insync.replicas": enough}
        new = NewTopic(TOPIC, replica_assignment=[[A, B, C]], config=config)
        async with Admin(self.cluster.grpc_bootstrap) as admin:
            await admin.create_topics([new])

    def _send(self, value: str) -> None:
        async def send() -> None:
            from strandline import Producer

            async with Producer(self.cluster.grpc_bootstrap) as producer:
                await producer.send_and_wait(TOPIC, value.encode())

        run_client(send())

    async def _read(self) -> set[str]:
        from strandline_cli.demo.ingestion import read_topic

        table = await read_topic(self.cluster.grpc_bootstrap, TOPIC)
        return {value.decode() for value in table["value"].to_pylist()}
