"""Validation of options and arguments: refused at the call, by the name that the caller used.

A fault found later would break a background task, or wait for a deadline. Examples are a number too
large for its message field, and a single string in place of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from operator import index
from typing import Any, Final, TypeVar

from strandline._net.kafka_names import PLAINTEXT
from strandline.errors import ConfigurationError, UnsupportedFeature
from strandline.types import TopicPartition
from strandline_runtime.real import MESSAGE_BYTES_MAX

K = TypeVar("K")
T = TypeVar("T")

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
ID_BYTES_MAX: Final = 32_767
"""Largest size of an id that is part of a key in the records of groups."""
TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999. A larger number is not in milliseconds."""
REQUEST_BYTES_MAX: Final = MESSAGE_BYTES_MAX - (1 << 20)
"""The transport's limit, less room for the frame and for growth by compression."""


def whole(
    name: str, value: object, least: int, most: int = INT32_MAX, *, hint: str | None = None
) -> int:
    """A whole number within bounds."""
    try:
        number = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise ConfigurationError(f"{name}={value!r} is not a whole number")
    within(name, number, least, most, hint)
    return number


def timestamp(value: object) -> int:
    """Milliseconds since the epoch, up to the year 9999."""
    hint = "it counts milliseconds since 1970"
    return whole("timestamp_ms", value, 0, TIMESTAMP_MS_MAX, hint=hint)


def milliseconds(name: str, value: object, least: int = 1) -> float:
    """A time span, as long as a request can name."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ConfigurationError(f"{name}={value!r} is not a number of milliseconds")
    within(name, value, least, INT32_MAX)
    return value


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}={value!r} is not True or False")
    return value


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}={value!r} is not a string")
    return value


def identifier(name: str, value: object) -> str:
    """The id of a group or of a member's instance."""
    found = text(name, value)
    try:
        size = len(found.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name}={value!r} is not Unicode text") from None
    if not found:
        raise ConfigurationError(f"{name} is empty; give it a name")
    if size > ID_BYTES_MAX:
        raise ConfigurationError(
            f"{name}={found[:40]!r}... has {size} bytes; at most {ID_BYTES_MAX} are allowed"
        )
    if not found.isprintable():
        raise ConfigurationError(f"{name}={value!r} has a character that cannot be printed")
    return found


def client_id(value: object) -> str | None:
    """A client's name, or None."""
    return None if value is None else identifier("client_id", value)


def plaintext(security_protocol: object) -> None:
    """Accepts the protocol that connections have, and refuses those of Kafka that they have not."""
    name, known = "security_protocol", ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
    wanted = text(name, security_protocol).upper()
    if wanted in known:
        raise UnsupportedFeature(f"{name}={security_protocol!r} is not supported: {PLAINTEXT}")
    if wanted != "PLAINTEXT":
        raise ConfigurationError(f"{name}={security_protocol!r} is not known; use PLAINTEXT")


def interceptors(given: Iterable[object], *methods: str) -> list[Any]:
    """Objects that have at least one of these methods."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"interceptors={given!r} is not a list of interceptors")
    found: list[Any] = list(given)
    for one in found:
        if isinstance(one, type):
            raise ConfigurationError(f"interceptors: {one.__name__} is a class; make one of it")
        if not any(callable(getattr(one, method, None)) for method in methods):
            raise ConfigurationError(f"interceptors: {one!r} has none of {', '.join(methods)}")
    return found


def several(name: str, given: Iterable[T], *kinds: type) -> list[T]:
    """The elements of an iterable, each of one of these kinds.

    A single string is refused: it would count as an iterable of its letters.
    """
    wanted = " or ".join(kind.__name__ for kind in kinds)
    if isinstance(given, str | bytes) or (tuple not in kinds and isinstance(given, kinds)):
        raise ConfigurationError(f"{name}={given!r} is one, not several; write [{given!r}]")
    try:
        found = list(given)
    except TypeError:
        raise ConfigurationError(f"{name}={given!r} is not a list of {wanted}") from None
    for one in found:
        if not isinstance(one, kinds):
            raise ConfigurationError(f"{name}: {one!r} is not a {wanted}")
    return found


def some_of(name: str, given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Some of a few words, in any case."""
    by_case = {word.lower(): word for word in known}
    found = several(name, given, str)
    for one in found:
        if one.lower() not in by_case:
            raise ConfigurationError(
                f"{name}: {one!r} is not one of: {', '.join(by_case.values())}"
            )
    return [by_case[one.lower()] for one in found]


def within(name: str, value: float, least: int, most: int, hint: str | None = None) -> None:
    advice = "" if hint is None else f"; {hint}"
    if value < least:
        raise ConfigurationError(f"{name}={value} is below {least}{advice}")
    if value > most:
        raise ConfigurationError(f"{name}={value} is above {most}{advice}")


def one_partition(name: str, given: object) -> TopicPartition:
    match given:
        case (str(topic), int(number)) if not isinstance(number, bool):
            return TopicPartition(topic, number)
    raise ConfigurationError(f"{name}: {given!r} is not a (topic, partition) pair")


def several_partitions(name: str, given: Iterable[object]) -> list[TopicPartition]:
    """Several partitions. A single one is refused: its tuple would count as an iterable."""
    if isinstance(given, TopicPartition) or (isinstance(given, tuple) and _is_pair(given)):
        raise ConfigurationError(f"{name}={given!r} is one, not several; write [{given!r}]")
    return [one_partition(name, one) for one in several(name, given, tuple)]


def partitions_or_topics(name: str, given: Iterable[Any]) -> list[TopicPartition | str]:
    """Several partitions or topics; a topic's name stands for all its partitions."""
    if isinstance(given, tuple) and _is_pair(given):
        raise ConfigurationError(f"{name}={given!r} is one, not several; write [{given!r}]")
    found = several(name, given, tuple, str)
    return [one if isinstance(one, str) else one_partition(name, one) for one in found]


def mapping(name: str, given: Mapping[K, T]) -> Mapping[K, T]:
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{name}={given!r} is not a mapping")
    return given


def _is_pair(given: tuple[object, ...]) -> bool:
    return len(given) == 2 and isinstance(given[0], str) and isinstance(given[1], int)
