"""The configuration keys of a topic: accepted keys, keys that are not supported yet, and their
resolved values.

Every value is text in Kafka's spelling, as in the controller's records. A key that Kafka supports
but that is missing here is refused, never silently ignored: a user who sets it relies on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.config_values import (
    boolean,
    cleanup_policy,
    fraction,
    integer,
    one_of,
    shown,
    suggestion,
    within_length,
)
from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT, DECOMPRESSED_BYTES_MAX
from strandline_proto.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
DAY_MS: Final = 86_400_000
MESSAGE_BYTES_LIMIT: Final = 31 << 20
"""The largest batch that may be accepted. A fetch answer that is already full may hold one more
batch, and both must fit into one gRPC message (64 MiB).
"""


@dataclass(frozen=True, slots=True)
class TopicKey:
    """One accepted key. `default_from` is the broker key that holds its default."""

    name: str
    parse: Callable[[str], Any]
    default_from: str
    doc: str


TOPIC_KEYS: Final[dict[str, TopicKey]] = {
    key.name: key
    for key in (
        TopicKey(
            "cleanup.policy",
            cleanup_policy,
            "log.cleanup.policy",
            "What happens to old records: delete (by retention), compact (the last value of each "
            "key stays), or compact,delete.",
        ),
        TopicKey(
            "delete.retention.ms",
            integer(0, INT64_MAX, "milliseconds"),
            "log.cleaner.delete.retention.ms",
            "How long a tombstone stays in a compacted log after the first cleaning that covered "
            "it.",
        ),
        TopicKey(
            "file.delete.delay.ms",
            integer(0, INT64_MAX, "milliseconds"),
            "log.segment.delete.delay.ms",
            "How long the files of a deleted segment stay, renamed to .deleted.",
        ),
        TopicKey(
            "flush.messages",
            integer(1, INT64_MAX),
            "log.flush.interval.messages",
            "Records after which the log is flushed in the background.",
        ),
        TopicKey(
            "flush.ms",
            integer(1, INT64_MAX, "milliseconds"),
            "log.flush.interval.ms",
            "Time after which appended records are flushed in the background.",
        ),
        TopicKey(
            "index.interval.bytes",
            integer(0, INT32_MAX, "bytes"),
            "log.index.interval.bytes",
            "Bytes of log between two entries of the offset index.",
        ),
        TopicKey(
            "max.compaction.lag.ms",
            integer(1, INT64_MAX, "milliseconds"),
            "log.cleaner.max.compaction.lag.ms",
            "A record that is older is compacted whatever the dirty ratio says.",
        ),
        TopicKey(
            "max.message.bytes",
            integer(0, MESSAGE_BYTES_LIMIT, "bytes"),
            "message.max.bytes",
            "The largest record batch, after compression, that the topic accepts.",
        ),
        TopicKey(
            "max.message.decompressed.bytes",
            integer(1, DECOMPRESSED_BYTES_LIMIT, "bytes"),
            "message.max.decompressed.bytes",
            "How far the records of one compressed batch may unpack: a producer's that goes beyond "
            "is refused, one in the log is not looked into and its log not compacted. Not Kafka's.",
        ),
        TopicKey(
            "message.timestamp.after.max.ms",
            integer(0, INT64_MAX, "milliseconds"),
            "log.message.timestamp.after.max.ms",
            "How far a record's timestamp may lie after the leader's clock: a batch with a later "
            "one is refused. Under LogAppendTime it does not count.",
        ),
        TopicKey(
            "message.timestamp.before.max.ms",
            integer(0, INT64_MAX, "milliseconds"),
            "log.message.timestamp.before.max.ms",
            "How far a record's timestamp may lie before the leader's clock: a batch with an "
            "earlier one is refused. Under LogAppendTime it does not count.",
        ),
        TopicKey(
            "message.timestamp.type",
            one_of("CreateTime", "LogAppendTime"),
            "log.message.timestamp.type",
            "Whose clock a record's timestamp is from: the producer's or the leader's.",
        ),
        TopicKey(
            "min.cleanable.dirty.ratio",
            fraction,
            "log.cleaner.min.cleanable.ratio",
            "Share of a compacted log that must be uncompacted before it is cleaned again.",
        ),
        TopicKey(
            "min.compaction.lag.ms",
            integer(0, INT64_MAX, "milliseconds"),
            "log.cleaner.min.compaction.lag.ms",
            "How long a record stays uncompacted at least.",
        ),
        TopicKey(
            "min.insync.replicas",
            integer(1, INT32_MAX),
            "min.insync.replicas",
            "How many replicas must be in sync for a write with acks=all to be accepted.",
        ),
        TopicKey(
            "retention.bytes",
            integer(-1, INT64_MAX, "bytes"),
            "log.retention.bytes",
            "Size above which the oldest segments of a partition are deleted; -1: no limit.",
        ),
        TopicKey(
            "retention.ms",
            integer(-1, INT64_MAX, "milliseconds"),
            "log.retention.ms",
            "Age above which a segment is deleted; -1: no limit.",
        ),
        TopicKey(
            "segment.bytes",
            integer(14, INT32_MAX, "bytes"),
            "log.segment.bytes",
            "Size at which a segment file of the log is closed and the next one begun.",
        ),
        TopicKey(
            "segment.index.bytes",
            integer(12, INT32_MAX, "bytes"),
            "log.index.size.max.bytes",
            "Size of an index file at which a new segment is begun.",
        ),
        TopicKey(
            "segment.jitter.ms",
            integer(0, INT64_MAX, "milliseconds"),
            "log.roll.jitter.ms",
            "At most so much is taken off segment.ms, so that segments do not all roll at once.",
        ),
        TopicKey(
            "segment.ms",
            integer(1, INT64_MAX, "milliseconds"),
            "log.roll.ms",
            "Age at which a segment is closed even if it is not full.",
        ),
        TopicKey(
            "unclean.leader.election.enable",
            boolean,
            "unclean.leader.election.enable",
            "Whether a replica that may lack acknowledged records leads at once where no replica "
            "in sync can: availability for the price of records.",
        ),
    )
}

_OF_BROKERS: Final = {key.default_from: key.name for key in TOPIC_KEYS.values()}

FIXED_TOPIC_VALUES: Final[dict[str, str]] = {
    "compression.type": "producer",
    "preallocate": "false",
    "remote.storage.enable": "false",
}
"""Kafka's keys with one accepted value, which describes the fixed behaviour here."""

_NOT_YET: Final[frozenset[str]] = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
    }
)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's configuration, each key resolved: its own value, else the broker's default."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = 5_000
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = (1 << 20) + 12
    max_message_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    min_insync_replicas: int = 2
    """Value for information only: `eff_min_insync` of the partition counts, which the controller
    resolved (I-91, P-77).
    """
    unclean_leader_election_enable: bool = False
    """Value for information only: the controller elects."""

    def with_entries(self, entries: Mapping[str, str]) -> TopicConfig:
        """This configuration as the default, overridden by a topic's own checked entries."""
        values = {name: getattr(self, name.replace(".", "_")) for name in TOPIC_KEYS}
        for name, value in entries.items():
            if name in TOPIC_KEYS:
                values[name] = _parse(name, value)
        return TopicConfig(**{name.replace(".", "_"): value for name, value in values.items()})


def check_topic_configs(entries: Mapping[str, str]) -> None:
    """Check all entries. Raises InvalidConfig, with the remedy, at the first one that is not
    accepted.
    """
    for name, value in entries.items():
        check_topic_key(name)
        if name in TOPIC_KEYS:
            _parse(name, value)
        elif value != FIXED_TOPIC_VALUES[name]:
            raise InvalidConfig(
                f"{name}={value[:100]} is not supported yet; the only accepted value is "
                f"{FIXED_TOPIC_VALUES[name]}"
            )
    check_compaction_lags(entries, prefix="")


def check_topic_key(name: str) -> None:
    """Raise InvalidConfig for a key that no topic can have."""
    if name in TOPIC_KEYS or name in FIXED_TOPIC_VALUES:
        return
    if _is_not_yet(name):
        raise InvalidConfig(f"{name[:100]} is not supported yet")
    if name in _OF_BROKERS:
        raise InvalidConfig(f"{name} is a key of brokers; of a topic it is {_OF_BROKERS[name]}")
    hint = suggestion(name, (*TOPIC_KEYS, *FIXED_TOPIC_VALUES, *_NOT_YET))
    raise InvalidConfig(f"unknown topic configuration key {shown(name)}{hint}")


def check_topic_deletion(name: str) -> None:
    """Raise InvalidConfig for a key that is not one of Kafka's topics.

    The deletion of a key that is not supported yet changes nothing: tools delete the throttles of
    a topic whether it has any or not.
    """
    if not _is_not_yet(name):
        check_topic_key(name)


def _is_not_yet(name: str) -> bool:
    return name in _NOT_YET or name.startswith("remote.")


def check_compaction_lags(entries: Mapping[str, str], *, prefix: str) -> None:
    """Check that no record can be too young and too old to be compacted.

    Each of `entries` was checked before; `prefix` is the part of a server's keys before a topic's.
    """
    low, high = f"{prefix}min.compaction.lag.ms", f"{prefix}max.compaction.lag.ms"
    if low in entries and high in entries and int(entries[low]) > int(entries[high]):
        raise InvalidConfig(
            f"{low}={entries[low]} is above {high}={entries[high]}; lower the one or raise the "
            "other"
        )


def _parse(name: str, value: str) -> Any:
    try:
        return TOPIC_KEYS[name].parse(within_length(value))
    except ValueError as error:
        raise InvalidConfig(f"invalid value {shown(value)} for {name}: {error}") from None
