"""Parsers of value forms that only the servers' own keys have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.core.config_values import integer
from strandline_broker.core.topic_config import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable


def directories(value: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in value.split(",") if path.strip())
    if not paths:
        raise ValueError("expected the path of a directory")
    if len({path.rstrip("/") for path in paths}) < len(paths):
        raise ValueError("a directory is named twice")
    return paths


def ms(low: int = 1) -> Callable[[str], int]:
    return integer(low, INT32_MAX, "milliseconds")


def long_ms(low: int) -> Callable[[str], int]:
    return integer(low, INT64_MAX, "milliseconds")


def limit_ms(text: str) -> int:
    value = long_ms(-1)(text)
    if value == 0:
        raise ValueError("expected -1 (no limit) or a whole number of milliseconds from 1")
    return value


class RecordPlace(NamedTuple):
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


def record_places(text: str) -> tuple[RecordPlace, ...]:
    """Record places as in `7:40,12:0`; an empty text gives none."""
    found = []
    for place in filter(None, (each.strip() for each in text.split(","))):
        number, _, offset = place.partition(":")
        if not (number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit()):
            raise ValueError("expected PARTITION:OFFSET, separated by commas")
        found.append(RecordPlace(int(number), int(offset)))
    return tuple(found)


def byte_count(low: int, high: int = INT32_MAX) -> Callable[[str], int]:
    return integer(low, high, "bytes")
