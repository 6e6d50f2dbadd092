"""Kafka's types of configuration values, by which consoles choose their input fields."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable


class ConfigKind(enum.IntEnum):
    """The types that the keys of this cluster have, with Kafka's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


_ABOVE_INT: Final = str(1 << 31)
_LONG: Final = frozenset(
    {
        "connections.max.idle.ms",
        "log.retention.check.interval.ms",
        "queued.max.request.bytes",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
    }
)
"""Kafka's keys of this type that have lower limits here."""
_SHORT: Final = frozenset({"offsets.topic.replication.factor"})


def kind_of(name: str, value: Any, parse: Callable[[str], Any]) -> ConfigKind:
    """Returns the type of a key that has this value and this parser.

    An integer is LONG if the parser accepts more than 31 bits.
    """
    if isinstance(value, bool):
        return ConfigKind.BOOLEAN
    if isinstance(value, float):
        return ConfigKind.DOUBLE
    if isinstance(value, tuple):
        return ConfigKind.LIST
    if not isinstance(value, int):
        return ConfigKind.STRING
    if name in _SHORT:
        return ConfigKind.SHORT
    return ConfigKind.LONG if name in _LONG or _accepts(parse, _ABOVE_INT) else ConfigKind.INT


def kind_of_text(value: str) -> ConfigKind:
    """Returns the type of a fixed value, from its text."""
    if value in ("true", "false"):
        return ConfigKind.BOOLEAN
    return ConfigKind.INT if value.isdecimal() else ConfigKind.STRING


def _accepts(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True
