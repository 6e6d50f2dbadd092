"""A configuration as text: the output of `--print-config`, and the answer to DescribeConfigs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.config.keys import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.config.key import Key
    from strandline_broker.config.keys import ControllerConfig, ServerConfig


def printed(config: ServerConfig) -> str:
    """The whole configuration as a TOML file with the same values."""
    lines = []
    for name, value, _ in described(config):
        lines.append(f'"{name}" = "{value}"' if value else f'# "{name}" is not set')
    return "\n".join(lines)


def described(config: ServerConfig) -> Iterator[tuple[str, str, Key]]:
    """(key, value as text, declaration) of every key."""
    for name, key in keys_of(type(config)).items():
        yield name, _text(key, getattr(config, name.replace(".", "_"))), key


def shared_values(config: ControllerConfig) -> dict[str, str]:
    """The controller's values that brokers describe to clients, as Kafka's brokers do."""
    return {name: value for name, value, _ in described(config) if name in _SHARED}


_SHARED: Final = frozenset(
    {
        "auto.leader.rebalance.enable",
        "default.replication.factor",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "num.partitions",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
    }
)


def _text(key: Key, value: Any) -> str:
    """The value as it may be set; a default as it is declared."""
    if key.default and key.parse(key.default) == value:
        return key.default
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
