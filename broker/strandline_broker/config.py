"""Configuration of the two servers: TOML file, then environment, then `--set`, the last one wins.

Keys are Kafka's, dotted; a nested TOML table flattens to dots. One declaration of a field says key,
accepted form, default and meaning, and the attribute is the key with underscores for dots. A key
that nobody knows, or whose feature is not there yet, is an error: whoever sets it relies on it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline_broker.config_unsupported import ONLY_VALUE, refusal
from strandline_broker.core.config_values import (
    boolean,
    cleanup_policy,
    fraction,
    integer,
    one_of,
    suggestion,
    text,
)
from strandline_broker.core.topic_config import (
    DAY_MS,
    INT32_MAX,
    INT64_MAX,
    MESSAGE_BYTES_LIMIT,
    TOPIC_KEYS,
    TopicConfig,
)
from strandline_broker.listeners import HostPort, Listener, host_ports, listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "BrokerConfig",
    "ConfigError",
    "ControllerConfig",
    "HostPort",
    "Listener",
    "load_broker_config",
    "load_controller_config",
]

ENVIRONMENT_PREFIX: Final = "STRANDLINE_"
RESERVED_VARIABLES: Final = frozenset({"STRANDLINE_BOOTSTRAP", "STRANDLINE_DIR"})
"""What the command line reads; no configuration keys."""


class ConfigError(Exception):
    """A configuration that no server may start with; the message is one line, with the remedy."""


@dataclass(frozen=True, slots=True)
class Key:
    """What one configuration key is. `default` is None if the key must be set."""

    name: str
    parse: Callable[[str], Any]
    default: str | None
    doc: str


def _key(parse: Callable[[str], Any], default: str | None, doc: str) -> Any:
    return field(metadata={"parse": parse, "default": default, "doc": doc})


def _directories(value: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in value.split(",") if path.strip())
    if len(paths) > 1:
        raise ValueError("several log directories are not supported yet; name one")
    if not paths:
        raise ValueError("expected the path of a directory")
    return paths


def _ms(low: int = 1) -> Callable[[str], int]:
    return integer(low, INT32_MAX, "milliseconds")


def _long_ms(low: int) -> Callable[[str], int]:
    return integer(low, INT64_MAX, "milliseconds")


def _bytes(low: int, high: int = INT32_MAX) -> Callable[[str], int]:
    return integer(low, high, "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """What both servers have."""

    node_id: int = _key(integer(0, INT32_MAX), None, "The server's number, unique in the cluster.")
    listeners: tuple[Listener, ...] = _key(
        listeners, None, "Where the server listens: NAME://HOST:PORT, separated by commas."
    )
    log_dirs: tuple[str, ...] = _key(_directories, None, "The data directory. Exactly one for now.")
    log_format: str = _key(
        one_of("console", "json"), "console", "Form of the log lines on standard error."
    )
    log_level: str = _key(
        one_of("debug", "info", "warning", "error"), "info", "The least severe log line written."
    )
    metrics_listeners: tuple[HostPort, ...] = _key(
        host_ports, "", "HOST:PORT where Prometheus may scrape metrics over HTTP; empty: nowhere."
    )
    explicit: frozenset[str] = frozenset()
    """The keys that were set, as opposed to defaulted."""

    @property
    def log_dir(self) -> str:
        return self.log_dirs[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(ServerConfig):
    """A broker's configuration."""

    advertised_listeners: tuple[Listener, ...] = _key(
        listeners, "", "Addresses that clients and brokers are told; empty: the listeners."
    )
    inter_broker_listener_name: str = _key(
        text, "", "Listener for the controller and other brokers; empty: the first one."
    )
    controller_quorum_bootstrap_servers: tuple[HostPort, ...] = _key(
        host_ports, None, "HOST:PORT of the controller."
    )
    broker_rack: str = _key(text, "", "The failure domain that replicas are spread over.")
    broker_heartbeat_interval_ms: int = _key(_ms(), "2000", "Time between two heartbeats.")
    controlled_shutdown_max_wait_ms: int = _key(
        _ms(0), "5000", "How long SIGTERM waits for leaderships to move away before it goes on."
    )
    replica_lag_time_max_ms: int = _key(
        _ms(), "30000", "A follower that has not caught up for so long leaves the ISR."
    )
    replica_fetch_wait_max_ms: int = _key(
        _ms(0), "500", "How long a leader may hold a follower's fetch that finds nothing new."
    )
    replica_fetch_min_bytes: int = _key(_bytes(0), "1", "Bytes that a follower's fetch waits for.")
    replica_fetch_max_bytes: int = _key(
        _bytes(0, MESSAGE_BYTES_LIMIT), "1048576", "Bytes of one partition in a follower's fetch."
    )
    replica_fetch_response_max_bytes: int = _key(
        _bytes(0, MESSAGE_BYTES_LIMIT), "10485760", "Bytes of a whole answer to a follower."
    )
    replica_fetch_backoff_ms: int = _key(
        _ms(0), "100", "First pause after a failed fetch; it doubles up to a second."
    )
    message_max_bytes: int = _key(
        _bytes(0, MESSAGE_BYTES_LIMIT), "1048588", "The largest record batch accepted."
    )
    log_segment_bytes: int = _key(_bytes(14), "1073741824", "Size of a segment file.")
    log_index_interval_bytes: int = _key(
        _bytes(0), "4096", "Bytes of log between two entries of the offset index."
    )
    log_index_size_max_bytes: int = _key(_bytes(12), "10485760", "Size of an index file.")
    log_cleanup_policy: tuple[str, ...] = _key(
        cleanup_policy, "delete", "delete, compact, or compact,delete."
    )
    log_cleaner_delete_retention_ms: int = _key(
        _long_ms(0), str(DAY_MS), "How long a tombstone stays after its first cleaning."
    )
    log_cleaner_max_compaction_lag_ms: int = _key(
        _long_ms(1), str(INT64_MAX), "An older record is compacted whatever the dirty ratio says."
    )
    log_cleaner_min_compaction_lag_ms: int = _key(
        _long_ms(0), "0", "How long a record stays uncompacted at least."
    )
    log_cleaner_min_cleanable_ratio: float = _key(
        fraction, "0.5", "Share of a log that must be uncompacted before it is cleaned."
    )
    log_flush_interval_messages: int = _key(
        integer(1, INT64_MAX), str(INT64_MAX), "Records after which a log is flushed."
    )
    log_flush_interval_ms: int = _key(
        _long_ms(1), "5000", "Time between background flushes under flush.policy=replicated."
    )
    log_message_timestamp_type: str = _key(
        one_of("CreateTime", "LogAppendTime"), "CreateTime", "Whose clock timestamps are from."
    )
    log_retention_bytes: int = _key(
        integer(-1, INT64_MAX, "bytes"), "-1", "Size of a partition that is kept; -1: no limit."
    )
    log_retention_ms: int = _key(
        _long_ms(-1), str(7 * DAY_MS), "Age of a segment that is kept; -1: no limit."
    )
    log_roll_jitter_ms: int = _key(_long_ms(0), "0", "At most so much is taken off log.roll.ms.")
    log_roll_ms: int = _key(_long_ms(1), str(7 * DAY_MS), "Age at which a segment is closed.")
    log_segment_delete_delay_ms: int = _key(
        _long_ms(0), "60000", "How long the files of a deleted segment stay."
    )
    log_flush_offset_checkpoint_interval_ms: int = _key(
        _ms(), "60000", "Time between two writes of the recovery point checkpoint."
    )
    replica_high_watermark_checkpoint_interval_ms: int = _key(
        _ms(), "5000", "Time between two writes of the high watermark checkpoint."
    )
    flush_policy: str = _key(
        one_of("replicated", "always"),
        "replicated",
        "always: fsync before an acknowledgement; replicated: replication is the safety.",
    )
    replica_truncation: str = _key(
        one_of("leader-epoch", "high-watermark"),
        "leader-epoch",
        "high-watermark is unsafe on purpose, to show what leader epochs prevent.",
    )
    development_unsafe: bool = _key(boolean, "false", "Allows settings that lose records.")
    producer_id_expiration_ms: int = _key(
        _ms(), str(DAY_MS), "State of an idempotent producer is kept so long after its last batch."
    )

    @property
    def inter_broker_listener(self) -> Listener:
        """The listener that the controller and other brokers dial."""
        return next(li for li in self.listeners if li.name == self.inter_broker_listener_name)

    @property
    def controller_target(self) -> str:
        """host:port of the controller."""
        return self.controller_quorum_bootstrap_servers[0].target

    @property
    def topic_defaults(self) -> TopicConfig:
        """What a topic has that sets nothing itself."""
        return TopicConfig(
            **{
                key.name.replace(".", "_"): getattr(self, key.default_from.replace(".", "_"))
                for key in TOPIC_KEYS.values()
                if key.default_from in BROKER_KEYS
            }
        )

    def advertised(self, name: str) -> Listener:
        """The address of the listener that others are told."""
        for listener in (*self.advertised_listeners, *self.listeners):
            if listener.name == name:
                return listener
        raise AssertionError(f"no listener {name!r} in {self.listeners}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(ServerConfig):
    """The controller's configuration."""

    broker_session_timeout_ms: int = _key(
        _ms(), "9000", "A broker that is silent for so long is fenced."
    )
    num_partitions: int = _key(integer(1, INT32_MAX), "1", "Partitions of a topic by default.")
    default_replication_factor: int = _key(
        integer(1, 32767), "3", "Replicas of each partition by default."
    )
    min_insync_replicas: int = _key(
        integer(1, INT32_MAX), "2", "Default of the topics' min.insync.replicas."
    )
    cluster_id: str = _key(text, "", "The cluster's id; empty: made at the first start.")


_Config = TypeVar("_Config", BrokerConfig, ControllerConfig)


def keys_of(config_type: type[ServerConfig]) -> dict[str, Key]:
    """Every key of one kind of server, in the order of declaration."""
    return {
        name: Key(name, f.metadata["parse"], f.metadata["default"], f.metadata["doc"])
        for f in dataclasses.fields(config_type)
        if "parse" in f.metadata
        for name in (f.name.replace("_", "."),)
    }


BROKER_KEYS: Final = keys_of(BrokerConfig)
CONTROLLER_KEYS: Final = keys_of(ControllerConfig)


def load_broker_config(
    path: str | None, overrides: Mapping[str, str], environ: Mapping[str, str]
) -> BrokerConfig:
    """A broker's configuration from file, environment and `--set`. Raises ConfigError."""
    config = _build(BrokerConfig, "a broker", _sources(path, overrides, environ, BROKER_KEYS))
    if not config.inter_broker_listener_name:
        first = config.listeners[0].name
        config = dataclasses.replace(config, inter_broker_listener_name=first)
    _check_listeners(config)
    if config.replica_truncation == "high-watermark" and not config.development_unsafe:
        raise ConfigError(
            "replica.truncation=high-watermark loses acknowledged records; it needs "
            "development.unsafe=true"
        )
    if len(config.controller_quorum_bootstrap_servers) > 1:
        raise ConfigError(
            "controller.quorum.bootstrap.servers: several controllers are not supported yet; name "
            "one"
        )
    return config


def load_controller_config(
    path: str | None, overrides: Mapping[str, str], environ: Mapping[str, str]
) -> ControllerConfig:
    """The controller's configuration from file, environment and `--set`. Raises ConfigError."""
    config = _build(
        ControllerConfig, "the controller", _sources(path, overrides, environ, CONTROLLER_KEYS)
    )
    _check_unique_names("listeners", config.listeners)
    return config


def printed(config: ServerConfig) -> str:
    """The whole configuration as a TOML file that says the same."""
    lines = []
    for name, value, _ in described(config):
        lines.append(f'"{name}" = "{value}"' if value else f'# "{name}" is not set')
    return "\n".join(lines)


def described(config: ServerConfig) -> Iterator[tuple[str, str, Key]]:
    """(key, value as text, declaration) of every key."""
    for name, key in keys_of(type(config)).items():
        value = getattr(config, name.replace(".", "_"))
        if isinstance(value, tuple):
            yield name, ",".join(str(item) for item in value), key
        elif isinstance(value, bool):
            yield name, str(value).lower(), key
        else:
            yield name, str(value), key


def _sources(
    path: str | None,
    overrides: Mapping[str, str],
    environ: Mapping[str, str],
    keys: Mapping[str, Key],
) -> dict[str, tuple[str, str]]:
    """key → (value, where it was set), the strongest source last to write."""
    entries: dict[str, tuple[str, str]] = {}
    if path is not None:
        for name, value in _read_toml(path).items():
            entries[name] = (value, f"in {path}")
    variables = {_variable(name): name for name in (*BROKER_KEYS, *CONTROLLER_KEYS, *ONLY_VALUE)}
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in RESERVED_VARIABLES:
            continue
        known = variables.get(variable)
        if known is None:
            hint = suggestion(variable, variables)
            raise ConfigError(f"unknown environment variable {variable}{hint}")
        # One environment may be shared by both servers, so the other one's keys are no mistake
        # here.
        if known in keys or known in ONLY_VALUE:
            entries[known] = (environ[variable], f"in {variable}")
    for name, value in overrides.items():
        entries[name] = (value, "in --set")
    return entries


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def _build(
    config_type: type[_Config], server: str, entries: Mapping[str, tuple[str, str]]
) -> _Config:
    keys = keys_of(config_type)
    for name, (value, where) in entries.items():
        if name not in keys:
            _refuse(name, value, where, server, keys)
    values: dict[str, Any] = {}
    for name, key in keys.items():
        value, where = entries.get(name, (key.default or "", "by default"))
        if not value and key.default is None:
            raise ConfigError(f"{name} is not set; {server} needs it: {key.doc}")
        try:
            values[name.replace(".", "_")] = key.parse(value)
        except ValueError as error:
            raise ConfigError(f"invalid value {value!r} for {name} ({where}): {error}") from None
    return config_type(**values, explicit=frozenset(entries))


def _refuse(name: str, value: str, where: str, server: str, keys: Mapping[str, Key]) -> None:
    """Raises for a key that is none of `keys`, unless it is a known one that says what is so
    anyway.
    """
    if ONLY_VALUE.get(name) == value:
        return
    if name in BROKER_KEYS or name in CONTROLLER_KEYS:
        other = "a broker" if name in BROKER_KEYS else "the controller"
        raise ConfigError(f"{name} ({where}) is a key of {other}, not of {server}; remove it")
    reason = refusal(name, value)
    if reason is None:
        reason = f"unknown configuration key {name!r}{suggestion(name, keys)}"
    raise ConfigError(f"{reason} ({where})")


def _read_toml(path: str) -> dict[str, str]:
    import tomllib

    from strandline_runtime.real import read_file

    try:
        tables = tomllib.loads(read_file(path).decode())
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    return dict(_flatten("", tables))


def _flatten(prefix: str, tables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from _flatten(f"{prefix}{name}.", value)
        elif isinstance(value, bool):
            yield prefix + name, str(value).lower()
        elif isinstance(value, list):
            yield prefix + name, ",".join(str(item) for item in value)
        else:
            yield prefix + name, str(value)


def _check_unique_names(key: str, named: tuple[Listener, ...]) -> None:
    names = [listener.name for listener in named]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{key} names {name} twice; each listener needs its own name")


def _check_listeners(config: BrokerConfig) -> None:
    _check_unique_names("listeners", config.listeners)
    _check_unique_names("advertised.listeners", config.advertised_listeners)
    names = [listener.name for listener in config.listeners]
    wanted = config.inter_broker_listener_name
    if wanted and wanted not in names:
        raise ConfigError(
            f"inter.broker.listener.name is {wanted}, but listeners has only {', '.join(names)}"
        )
    for listener in config.advertised_listeners:
        if listener.name not in names:
            raise ConfigError(
                f"advertised.listeners names {listener.name}, but listeners has only "
                f"{', '.join(names)}"
            )
    for name in names:
        if config.advertised(name).host in ("0.0.0.0", "::"):
            raise ConfigError(
                f"listener {name} would be advertised as {config.advertised(name).host}, which "
                "nobody "
                "can connect to; set advertised.listeners"
            )
