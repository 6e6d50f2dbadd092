"""Kafka's server keys that these servers refuse, with the reason.

The refusal says whether the feature is missing, has another name here, or does not exist in this
design. A key that sets what is always true here is accepted.
"""

from __future__ import annotations

from typing import Final

ONLY_VALUE: Final[dict[str, str]] = {
    "compression.type": "producer",
    "controlled.shutdown.enable": "true",
    "delete.topic.enable": "true",
    "remote.log.storage.system.enable": "false",
    "log.cleaner.threads": "1",
    "eligible.leader.replicas.enable": "true",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.migration.policy": "disabled",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "transaction.partition.verification.enable": "true",
    "transaction.two.phase.commit.enable": "false",
}
"""Keys accepted with this value, and refused with any other."""

_OTHER_NAME: Final[dict[str, str]] = {
    "broker.id": "node.id",
    "log.dir": "log.dirs",
    "log.retention.hours": "log.retention.ms",
    "log.retention.minutes": "log.retention.ms",
    "log.roll.hours": "log.roll.ms",
    "log.roll.jitter.hours": "log.roll.jitter.ms",
    "log.scrub.interval.ms": "log.scrub.interval",
    "metadata.log.dir": "log.dirs",
    "zookeeper.connect": "controller.quorum.bootstrap.servers",
    "controller.quorum.voters": "controller.quorum.bootstrap.servers",
    "advertised.host.name": "advertised.listeners",
    "host.name": "listeners",
    "port": "listeners",
}

_NOT_YET: Final[frozenset[str]] = frozenset(
    {
        "background.threads",
        "controller.listener.names",
        "log.flush.scheduler.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.preallocate",
        "max.connection.creation.rate",
        "max.connections.per.ip.overrides",
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "process.roles",
        "queued.max.requests",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "replica.selector.class",
        "security.inter.broker.protocol",
    }
)

_NOT_YET_PREFIXES: Final = (
    "authorizer.",
    "client.quota.",
    "delegation.token.",
    "group.",
    "log.local.",
    "metadata.log.",
    "metadata.max.",
    "metric.",
    "metrics.num.",
    "metrics.recording.",
    "offsets.",
    "password.",
    "principal.",
    "quota.",
    "remote.",
    "sasl.",
    "share.",
    "socket.",
    "ssl.",
    "telemetry.",
    "transaction.",
    "transactional.",
    "zookeeper.",
)


def refusal_at_run_time(name: str, value: str) -> str | None:
    """The refusal of a key that a request wants to alter while the servers run."""
    if name in ONLY_VALUE:
        return f"{name} is always {ONLY_VALUE[name]} here and cannot be altered"
    return refusal(name, value)


def refusal(name: str, value: str) -> str | None:
    """The reason why no server here has this key of Kafka's; None if it is not one of Kafka's."""
    if name in ONLY_VALUE:
        return f"{name}={value} is not supported yet; the only accepted value is {ONLY_VALUE[name]}"
    if name in _OTHER_NAME:
        return f"{name} is not a key here; use {_OTHER_NAME[name]}"
    return f"{name} is not supported yet" if is_not_yet(name) else None


def is_not_yet(name: str) -> bool:
    """True for a key of Kafka's that no server here has yet."""
    return name in _NOT_YET or name.startswith(_NOT_YET_PREFIXES)
