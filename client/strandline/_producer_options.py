"""Checks the options of a producer against each other before anything is started."""

from __future__ import annotations

from typing import Final

from strandline._core.delivery_terms import QueueOptions
from strandline.errors import ConfigurationError
from strandline_proto.batch import Compression

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


def at_least(name: str, value: float, least: int) -> None:
    if value < least:
        raise ConfigurationError(f"{name}={value} is below {least}")
