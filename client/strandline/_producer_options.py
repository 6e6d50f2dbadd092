"""Checks the options of a producer against each other before anything is started."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline._core.delivery_terms import QueueOptions
from strandline.errors import ConfigurationError
from strandline_proto.batch import Compression
from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT

_ACKS: Final[dict[int | str, int]] = {"all": -1, -1: -1, 0: 0, 1: 1, "0": 0, "1": 1, "-1": -1}


def queue_options(
    *,
    acks: int | str,
    enable_idempotence: bool | None,
    compression_type: str | None,
    linger_ms: float,
    batch_size: int,
    max_in_flight: int,
    delivery_timeout_ms: float,
) -> QueueOptions:
    if acks not in _ACKS:
        raise ConfigurationError(f"acks={acks!r} is not accepted; use 'all', 1 or 0")
    level = _ACKS[acks]
    idempotent = level == -1 if enable_idempotence is None else enable_idempotence
    if idempotent and level != -1:
        raise ConfigurationError(f"enable_idempotence needs acks='all', not acks={acks!r}")
    if idempotent and max_in_flight > 5:
        raise ConfigurationError("enable_idempotence needs max_in_flight of at most 5")
    names = {kind.name.lower(): kind for kind in Compression}
    codec = names.get((compression_type or "none").lower())
    if codec is None:
        raise ConfigurationError(
            f"compression_type={compression_type!r} is not known; use one of {', '.join(names)}"
        )
    at_least("linger_ms", linger_ms, 0)
    at_least("batch_size", batch_size, 1)
    at_least("max_in_flight", max_in_flight, 1)
    at_least("delivery_timeout_ms", delivery_timeout_ms, 1)
    return QueueOptions(
        acks=level,
        idempotent=idempotent,
        max_in_flight=max_in_flight,
        linger_ms=linger_ms,
        batch_size=batch_size,
        compression=int(codec),
        delivery_timeout_ms=delivery_timeout_ms,
    )


class RecordLimit(NamedTuple):
    """The size of the largest record that is sent, and what raises that, in words."""

    max_bytes: int
    option: str


def record_limit(
    compression_type: str | None, max_request_size: int, *, max_decompressed_bytes: int
) -> RecordLimit:
    """What is compressed must unpack within what readers accept."""
    at_least("max_request_size", max_request_size, 1)
    within("max_decompressed_bytes", max_decompressed_bytes, 1, DECOMPRESSED_BYTES_LIMIT)
    compressed = (compression_type or "none").lower() != "none"
    if compressed and max_decompressed_bytes < max_request_size:
        return RecordLimit(
            max_decompressed_bytes,
            f"max_decompressed_bytes ({max_decompressed_bytes}); raise it here and for consumers, "
            "and the topic's max.message.decompressed.bytes",
        )
    return RecordLimit(max_request_size, f"max_request_size ({max_request_size})")


def at_least(name: str, value: float, least: int) -> None:
    if value < least:
        raise ConfigurationError(f"{name}={value} is below {least}")


def within(name: str, value: int, least: int, most: int) -> None:
    at_least(name, value, least)
    if value > most:
        raise ConfigurationError(f"{name}={value} is above {most}")
