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
        ms(), "45000", "Time without a heartbeat after which a member leaves its group."
    )
    group_consumer_min_session_timeout_ms: int = _key(
        ms(), "45000", "Minimum of a group's consumer.session.timeout.ms."
    )
    group_consumer_max_session_timeout_ms: int = _key(
        ms(), "60000", "Maximum of a group's consumer.session.timeout.ms."
    )
    group_consumer_heartbeat_interval_ms: int = _key(
        ms(),
        "5000",
        "Time between two heartbeats of a member, as its coordinator requests. A broker with more"
        " than 5000 members requests group.consumer.max.heartbeat.interval.ms instead, or a third"
        " of their session if that is less.",
    )
    group_consumer_min_heartbeat_interval_ms: int = _key(
        ms(), "5000", "Minimum of a group's consumer.heartbeat.interval.ms."
    )
    group_consumer_max_heartbeat_interval_ms: int = _key(
        ms(), "15000", "Maximum of a group's consumer.heartbeat.interval.ms."
    )
    group_consumer_max_size: int = _key(
        integer(1, INT32_MAX),
        "10000",
        "Limit of members in a group; the assignment of so many fits into one batch.",
    )
    group_consumer_assignors: tuple[str, ...] = _key(
        some_of("uniform", "range"),
        "uniform,range",
        "Permitted assignors of partitions to members; the first is the default.",
    )
    group_consumer_regex_refresh_interval_ms: int = _key(
        ms(10_000),
        "600000",
        "Time after which the regular expressions of subscriptions are resolved again without a"
        " known change of topics.",
    )
    group_min_session_timeout_ms: int = _key(
        ms(), "6000", "Minimum of the session timeout that a member of a classic group asks for."
    )
    group_max_session_timeout_ms: int = _key(
        ms(), "1800000", "Maximum of the session timeout that a member of a classic group asks for."
    )
    group_initial_rebalance_delay_ms: int = _key(
        ms(0),
        "100",
        "Time that the first rebalance of an empty classic group waits for more members.",
    )
    group_max_size: int = _key(
        integer(1, INT32_MAX), str(INT32_MAX), "Limit of members in a classic group."
    )
    offset_metadata_max_bytes: int = _key(
        byte_count(0), "4096", "Limit of text bytes stored with a committed offset."
    )
    offsets_commit_timeout_ms: int = _key(
        ms(),
        "5000",
        "Longest wait of a commit, a heartbeat or a step of a transaction for the followers of the"
        " coordinator's log.",
    )
    offsets_load_buffer_size: int = _key(
        byte_count(1),
        "5242880",
        "Bytes that a coordinator reads at a time when it loads its log, at most 1 MiB. A larger"
        " batch is read nevertheless.",
    )
    offsets_load_skip_records: tuple[RecordPlace, ...] = _key(
        record_places,
        "",
        "Records of __consumer_offsets, as PARTITION:OFFSET, that a coordinator skips if they do"
        " not parse.",
    )
    offsets_retention_minutes: int = _key(
        integer(1, INT32_MAX, "minutes"),
        "10080",
        "Time that the offsets of an unused group are kept.",
    )
    offsets_retention_check_interval_ms: int = _key(
        ms(), "600000", "Time between two checks for offsets past their retention."
    )
