"""The configuration keys of a broker as group coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from strandline_broker.config.key import declared as _key
from strandline_broker.config.parsers import RecordPlace, byte_count, ms, record_places
from strandline_broker.config.server import ServerConfig
from strandline_broker.core.config_values import integer, some_of
from strandline_broker.core.topic_config import INT32_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig(ServerConfig):
    group_consumer_session_timeout_ms: int = _key(
        ms(), "45000", "A member that is silent for so long leaves its group."
    )
    group_consumer_min_session_timeout_ms: int = _key(
        ms(), "45000", "The least that a group's consumer.session.timeout.ms may be."
    )
    group_consumer_max_session_timeout_ms: int = _key(
        ms(), "60000", "The most that a group's consumer.session.timeout.ms may be."
    )
    group_consumer_heartbeat_interval_ms: int = _key(
        ms(),
        "5000",
        "Time between two heartbeats of a member, as members are told; a broker that has more than"
        " 5000 members tells them group.consumer.max.heartbeat.interval.ms, or a third of their"
        " session if that is less.",
    )
    group_consumer_min_heartbeat_interval_ms: int = _key(
        ms(), "5000", "The least that a group's consumer.heartbeat.interval.ms may be."
    )
    group_consumer_max_heartbeat_interval_ms: int = _key(
        ms(), "15000", "The most that a group's consumer.heartbeat.interval.ms may be."
    )
    group_consumer_max_size: int = _key(
        integer(1, INT32_MAX),
        "10000",
        "Members that a group may have; with so many their assignment fits into one batch.",
    )
    group_consumer_assignors: tuple[str, ...] = _key(
        some_of("uniform", "range"),
        "uniform,range",
        "How partitions may be divided among members; the first is the default.",
    )
    group_consumer_regex_refresh_interval_ms: int = _key(
        ms(10_000),
        "600000",
        "Time after which the regular expressions of subscriptions are resolved again, though no"
        " change of topics was heard of.",
    )
    offset_metadata_max_bytes: int = _key(
        byte_count(0), "4096", "Bytes of text that may be kept with a committed offset."
    )
    offsets_commit_timeout_ms: int = _key(
        ms(),
        "5000",
        "How long a commit or a heartbeat waits for the followers of the group's log.",
    )
    offsets_load_buffer_size: int = _key(
        byte_count(1),
        "5242880",
        "Bytes that a coordinator reads at a time when it loads its log, at most 1 MiB; one larger"
        " batch is read all the same.",
    )
    offsets_load_skip_records: tuple[RecordPlace, ...] = _key(
        record_places,
        "",
        "Records of __consumer_offsets, as PARTITION:OFFSET, without which a coordinator goes on if"
        " they do not parse.",
    )
    offsets_retention_minutes: int = _key(
        integer(1, INT32_MAX, "minutes"),
        "10080",
        "How long the offsets of a group that nobody uses are kept.",
    )
    offsets_retention_check_interval_ms: int = _key(
        ms(), "600000", "Time between two looks for offsets that are past their retention."
    )
