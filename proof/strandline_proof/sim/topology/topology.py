"""The parts of a simulated cluster, and the configurations of its servers: small and impatient.

Names of nodes are host names: `controller`, `broker-1` ..., `writer`, `reader`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from strandline_broker.config.loading import load_broker_config, load_controller_config
from strandline_proof.sim.topology.groups import (
    CLASSIC,
    GroupSpec,
    ImpossibleGroup,
    group_spec,
    member_name,
)
from strandline_proof.sim.topology.transactions import (
    KAFKA,
    LEDGER,
    ImpossibleTransactions,
    Transacting,
    transacting,
)
from strandline_proof.sim.topology.work import ImpossibleWork, Work, work_of

CONTROLLER: Final = "controller"
WRITER: Final = "writer"
READER: Final = "reader"
SEEKER: Final = "seeker"
"""A reader that seeks, and looks up offsets."""
LOOSE: Final = "loose"
"""The topic of producers with acks of 0 and 1, and the node of its clients."""
COMMITTER: Final = "committer"
"""A reader that is no member, and commits to a group of its own."""
GROUP_ADMIN: Final = "group-admin"
COORDINATOR: Final = "coordinator"
"""`coordinator-0` is the broker that coordinates the first group."""
CONTROLLER_PORT: Final = 9090
BROKER_PORT: Final = 9092
KAFKA_PORT: Final = 9094
"""Port of a broker's listener for Kafka's protocol, where clients use it."""
DATA: Final = "/data"
TOPIC: Final = "t"
METADATA_MAX_AGE_MS: Final = 4000
METADATA_MAX_AGE_MS_ADDED: Final = 700
"""The clients' metadata age where partitions are added: clients learn of them in no other way."""
LAG_MS_MAX: Final = 1500
LOOP_CHECK_MS: Final = 3000
"""Limit of a metric only: in virtual time no step is late by itself."""
COMPACTED: Final = "compacted"
"""The compacted topic, and the node of its clients."""
CROWD: Final = "crowd"
"""The topic of many partitions, and the node of its clients."""
LAG_OF_INTERNAL_TOPICS_MS: Final = "3600000"
"""Longer than any run: a segment of theirs that a cut or damage has closed is not compacted."""
KEYS_BYTES: Final = "1024"
"""Size of a cleaning's map of keys: 37 keys, after which the cleaning goes on in another pass."""
EXPIRY_CHECK_MS: Final = "300"
GROUPS_MAX: Final = 10
ADDED_MAX: Final = 2
"""Most partitions that the topic may gain within a run."""
GROUP_SETTINGS: Final = {
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.session.timeout.ms": "1500",
    "group.consumer.heartbeat.interval.ms": "400",
    "group.consumer.min.heartbeat.interval.ms": "400",
    "offsets.commit.timeout.ms": "1000",
    "group.min.session.timeout.ms": "1500",
    "group.initial.rebalance.delay.ms": "100",
}

BOUNDS: Final = {
    "brokers": (1, 20),
    "partitions": (1, 400),
    "replication_factor": (1, 20),
    "min_insync_replicas": (1, 20),
    "segment_bytes": (200, 1 << 30),
    "balance_s": (1, 1_000_000),
    "scrub_ms": (0, 1_000_000_000),
    "retention_check_ms": (0, 1_000_000_000),
    "cleaner_ms": (0, 1_000_000_000),
    "fetch_bytes": (1, 1 << 30),
    "sends_per_s": (1, 1000),
    "racks": (0, 20),
    "offsets_partitions": (0, 100),
    "crowd": (0, 300),
}
"""Least and greatest value of each number: beyond them a run says nothing, or never ends."""


class ImpossibleTopology(ValueError):
    """No such cluster can be; the message says why."""


@dataclass(frozen=True, slots=True)
class Topology:
    brokers: int = 3
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    flush_policy: str = "replicated"
    segment_bytes: int = 4000
    balance_s: int = 300
    """Seconds between the controller's checks that preferred leaders lead."""
    scrub_ms: int = 0
    """Milliseconds between scrubs; 0: no scrub within a run."""
    retention_check_ms: int = 0
    """Milliseconds between retention checks; 0: no check within a run."""
    cleaner_ms: int = 0
    """Milliseconds that the log cleaner sleeps when it has nothing to do; 0: longer than
    any run.
    """
    fetch_bytes: int = 1 << 20
    """Most bytes of one partition in one fetch of a follower or a reader; one batch at least."""
    sends_per_s: int = 12
    """Records of each of the two producers."""
    racks: int = 0
    """The number of racks, assigned to brokers in turn; 0: brokers have no rack."""
    offsets_partitions: int = 0
    """Partitions of the groups' topic; 0: there is no such topic, and no group."""
    groups: tuple[GroupSpec, ...] = ()
    crowd: int = 0
    """Partitions of a topic beside the main one. 0: there is none."""
    work: Work = field(default_factory=Work)
    """Settings of its clients."""
    transactions: Transacting | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "work", work_of(self.work))
            object.__setattr__(self, "transactions", transacting(self.transactions))
        except (ImpossibleWork, ImpossibleTransactions) as error:
            raise ImpossibleTopology(str(error)) from None
        self._check_groups()
        self._check_transactions()
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ImpossibleTopology(
                    f"{name}={value!r} is not a whole number from {low} to {high}"
                )
        if self.replication_factor > self.brokers:
            raise ImpossibleTopology(
                f"replication_factor={self.replication_factor} needs as many brokers, there are"
                f" {self.brokers}"
            )
        if self.min_insync_replicas > self.replication_factor:
            raise ImpossibleTopology(
                f"min_insync_replicas={self.min_insync_replicas} is above"
                f" replication_factor={self.replication_factor}: nothing could be acknowledged"
            )
        if self.flush_policy not in ("replicated", "always"):
            raise ImpossibleTopology(
                f"flush_policy={self.flush_policy!r} is not one of replicated, always"
            )

    def _check_groups(self) -> None:
        if not isinstance(self.groups, list | tuple):
            raise ImpossibleTopology(f"groups={self.groups!r} is not a list of groups")
        try:
            groups = tuple(map(group_spec, self.groups))
        except ImpossibleGroup as error:
            raise ImpossibleTopology(str(error)) from None
        object.__setattr__(self, "groups", groups)
        if len(groups) > GROUPS_MAX:
            raise ImpossibleTopology(f"{len(groups)} groups are more than {GROUPS_MAX}")
        if groups and self.offsets_partitions == 0:
            raise ImpossibleTopology("groups need offsets_partitions, at least 1")
        if any(group.protocol == CLASSIC for group in groups) and not self.work.kafka:
            raise ImpossibleTopology(
                "a classic group needs clients of Kafka's protocol (work.kafka)"
            )

    def _check_transactions(self) -> None:
        if self.transactions is None:
            return
        if self.offsets_partitions == 0:
            raise ImpossibleTopology("transactions need offsets_partitions, at least 1")
        if KAFKA in self.transactions.tellers and not self.work.kafka:
            raise ImpossibleTopology("a teller of Kafka's protocol needs its listener (work.kafka)")

    @property
    def broker_names(self) -> tuple[str, ...]:
        return tuple(f"broker-{n}" for n in range(1, self.brokers + 1))

    @property
    def servers(self) -> tuple[str, ...]:
        return (CONTROLLER, *self.broker_names)

    @property
    def member_names(self) -> tuple[str, ...]:
        """Names of the machines on which members of groups run."""
        return tuple(
            member_name(number, member)
            for number, group in enumerate(self.groups)
            for member in range(len(group.members))
        )

    @property
    def clients(self) -> tuple[str, ...]:
        others = (*self.member_names, COMMITTER, GROUP_ADMIN) if self.groups else ()
        seeker = (SEEKER,) if self.work.seeker else ()
        loose = (LOOSE,) if self.work.loose else ()
        return (WRITER, READER, *others, *seeker, *loose, *self.transactors)

    @property
    def transactors(self) -> tuple[str, ...]:
        """Names of the machines of transactions: of producers, loops, and readers."""
        if self.transactions is None:
            return ()
        return (LEDGER, *self.transactions.teller_names, *self.transactions.copier_names)

    @property
    def nodes(self) -> tuple[str, ...]:
        return (*self.servers, *self.clients)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{name}:{BROKER_PORT}" for name in self.broker_names)

    @property
    def kafka_bootstrap(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, KAFKA_PORT) for name in self.broker_names)


def broker_id(name: str) -> int:
    return int(name.rpartition("-")[2])


def controller_config(topology: Topology, name: str = CONTROLLER) -> object:
    """The configuration of a controller on node `name`."""
    settings = {
        "node.id": "1000",
        "listeners": f"CONTROLLER://{name}:{CONTROLLER_PORT}",
        "log.dirs": DATA,
        "broker.session.timeout.ms": "1000",
        "metrics.event.loop.interval.ms": str(LOOP_CHECK_MS),
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "leader.imbalance.check.interval.seconds": str(topology.balance_s),
        "offsets.topic.num.partitions": str(max(1, topology.offsets_partitions)),
        "offsets.topic.replication.factor": str(topology.replication_factor),
    }
    if topology.transactions is not None:
        settings |= {
            "transaction.state.log.num.partitions": str(topology.transactions.state_partitions),
            "transaction.state.log.replication.factor": str(topology.replication_factor),
            "transaction.state.log.min.isr": str(topology.min_insync_replicas),
        }
    return load_controller_config(None, settings, {})


def broker_config(topology: Topology, name: str) -> object:
    """The configuration of the broker on node `name`."""
    settings = {
        "node.id": str(broker_id(name)),
        "listeners": f"PLAINTEXT://{name}:{BROKER_PORT}",
        "log.dirs": DATA,
        "controller.quorum.bootstrap.servers": f"{CONTROLLER}:{CONTROLLER_PORT}",
        "broker.heartbeat.interval.ms": "300",
        "controlled.shutdown.max.wait.ms": "1000",
        "replica.lag.time.max.ms": str(LAG_MS_MAX),
        "replica.fetch.wait.max.ms": "300",
        "replica.fetch.backoff.ms": "50",
        "log.segment.bytes": str(topology.segment_bytes),
        "log.index.interval.bytes": "300",
        "log.flush.interval.ms": "700",
        "log.flush.offset.checkpoint.interval.ms": "1100",
        "replica.high.watermark.checkpoint.interval.ms": "900",
        "flush.policy": topology.flush_policy,
        "metrics.event.loop.interval.ms": str(LOOP_CHECK_MS),
    }
    if topology.work.kafka:
        settings["listeners"] += f",KAFKA://{name}:{KAFKA_PORT}"
        settings["listener.security.protocol.map"] = "PLAINTEXT:GRPC,KAFKA:PLAINTEXT"
    if topology.groups or topology.transactions is not None:
        settings |= GROUP_SETTINGS
    if topology.transactions is not None:
        settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = "300"
    if topology.racks > 0:
        settings["broker.rack"] = f"rack-{(broker_id(name) - 1) % topology.racks + 1}"
    if topology.fetch_bytes < 1 << 20:
        settings["replica.fetch.max.bytes"] = str(topology.fetch_bytes)
    if topology.scrub_ms > 0:
        settings["log.scrub.interval"] = str(topology.scrub_ms)
    if topology.retention_check_ms > 0:
        settings["log.retention.check.interval.ms"] = str(topology.retention_check_ms)
    if topology.work.expiry_ms > 0:
        settings["producer.id.expiration.ms"] = str(topology.work.expiry_ms)
        settings["producer.id.expiration.check.interval.ms"] = EXPIRY_CHECK_MS
    if topology.cleaner_ms > 0:
        settings["log.cleaner.backoff.ms"] = str(topology.cleaner_ms)
        # The oracles read the internal topics whole. The compacted topic has a lag of its own.
        settings["log.cleaner.min.compaction.lag.ms"] = LAG_OF_INTERNAL_TOPICS_MS
        settings["log.cleaner.dedupe.buffer.size"] = KEYS_BYTES
    return load_broker_config(None, settings, {})
