"""A server's configuration from a TOML file, then the environment, then `--set`; the last one wins.

A nested TOML table flattens to dots. An unknown key, or a key whose feature is missing, is an
error: its user relies on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline_broker.config.keys import (
    BROKER_KEYS,
    CONTROLLER_KEYS,
    BrokerConfig,
    ControllerConfig,
    keys_of,
)
from strandline_broker.config.listeners import check_unique_names, with_listeners
from strandline_broker.config.unsupported import ONLY_VALUE, refusal
from strandline_broker.core.config_values import suggestion
from strandline_broker.core.topic_config import TOPIC_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strandline_broker.config.key import Key

ENVIRONMENT_PREFIX: Final = "STRANDLINE_"
RESERVED_VARIABLES: Final = frozenset(
    {
        "STRANDLINE_BOOTSTRAP",
        "STRANDLINE_CONSOLE_TOKEN",
        "STRANDLINE_CONTEXT",
        "STRANDLINE_DIR",
    }
)
"""Environment variables that the command line reads; they are no configuration keys."""

_Config = TypeVar("_Config", BrokerConfig, ControllerConfig)


class ConfigError(Exception):
    """A configuration with which no server may start; the message is one line, with the remedy."""


def load_broker_config(
    path: str | None, overrides: Mapping[str, str], environ: Mapping[str, str]
) -> BrokerConfig:
    """A broker's configuration from file, environment and `--set`. Raises ConfigError."""
    config = _build(BrokerConfig, "a broker", _sources(path, overrides, environ, BROKER_KEYS))
    try:
        config = with_listeners(config)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    _check_combinations(config)
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
    try:
        check_unique_names("listeners", config.listeners)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if len(config.log_dirs) > 1:
        raise ConfigError(
            "log.dirs: the controller keeps one log in one directory; name one of "
            f"{', '.join(config.log_dirs)}"
        )
    return config


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
        # Both servers may share one environment, so the other server's keys are no mistake
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
    if name in TOPIC_KEYS:
        reason = f"{name} is a key of topics; of brokers it is {TOPIC_KEYS[name].default_from}"
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


def _check_combinations(config: BrokerConfig) -> None:
    wait_ms, lag_ms = config.replica_fetch_wait_max_ms, config.replica_lag_time_max_ms
    if wait_ms > lag_ms:
        raise ConfigError(
            f"replica.fetch.wait.max.ms={wait_ms} is above replica.lag.time.max.ms={lag_ms}: "
            "followers that wait for news would leave the ISR; lower the one or raise the other"
        )
    low, high = config.log_cleaner_min_compaction_lag_ms, config.log_cleaner_max_compaction_lag_ms
    if low > high:
        raise ConfigError(
            f"log.cleaner.min.compaction.lag.ms={low} is above "
            f"log.cleaner.max.compaction.lag.ms={high}; lower the one or raise the other"
        )
    request, queued = config.socket_request_max_bytes, config.queued_max_request_bytes
    if request > queued:
        raise ConfigError(
            f"socket.request.max.bytes={request} is above queued.max.request.bytes={queued}, which"
            " all connections share; lower the one or raise the other"
        )
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if low > high:
        raise ConfigError(
            f"group.min.session.timeout.ms={low} is above group.max.session.timeout.ms={high}: no"
            " member could join a classic group; lower the one or raise the other"
        )
    _check_within("session.timeout.ms", config)
    _check_within("heartbeat.interval.ms", config)
    beat, session = (
        config.group_consumer_heartbeat_interval_ms,
        config.group_consumer_session_timeout_ms,
    )
    if beat >= session:
        raise ConfigError(
            f"group.consumer.heartbeat.interval.ms={beat} is not below"
            f" group.consumer.session.timeout.ms={session}: members would leave between two"
            " heartbeats; lower the one or raise the other"
        )


def _check_within(key: str, config: BrokerConfig) -> None:
    """A group's default lies within the bounds of what may be set for a group."""
    name = key.replace(".", "_")
    low, value, high = (
        getattr(config, f"group_consumer_{part}{name}") for part in ("min_", "", "max_")
    )
    if not low <= value <= high:
        raise ConfigError(
            f"group.consumer.{key}={value} is not within group.consumer.min.{key}={low} and"
            f" group.consumer.max.{key}={high}; change the one or the others"
        )
