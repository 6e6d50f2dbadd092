"""Validates the options of a producer before it starts."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline._core.delivery_terms import QueueOptions
from strandline._net.arguments import REQUEST_BYTES_MAX, flag, identifier, milliseconds, whole
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
    transactional_id: str | None = None,
) -> QueueOptions:
    """The validated options of a producer's queues."""
    if isinstance(acks, bool) or not isinstance(acks, int | str) or acks not in _ACKS:
        raise ConfigurationError(f"acks={acks!r} is not accepted; use 'all', 1 or 0")
    level = _ACKS[acks]
    if enable_idempotence is not None:
        flag("enable_idempotence", enable_idempotence)
    whole("max_in_flight", max_in_flight, 1)
    idempotent = level == -1 if enable_idempotence is None else enable_idempotence
    if idempotent and level != -1:
        raise ConfigurationError(f"enable_idempotence needs acks='all', not acks={acks!r}")
    if idempotent and max_in_flight > 5:
        raise ConfigurationError("enable_idempotence needs max_in_flight of at most 5")
    if transactional_id is not None:
        identifier("transactional_id", transactional_id)
        if not idempotent:
            what = f"acks={acks!r}" if level != -1 else "enable_idempotence=False"
            raise ConfigurationError(
                f"{what} cannot go with a transactional_id: a transaction needs acks='all' and "
                "enable_idempotence; leave both out"
            )
    names = {kind.name.lower(): kind for kind in Compression}
    codec = names.get((compression_type or "none").lower())
    if codec is None:
        raise ConfigurationError(
            f"compression_type={compression_type!r} is not known; use one of {', '.join(names)}"
        )
    milliseconds("linger_ms", linger_ms, least=0)
    milliseconds("delivery_timeout_ms", delivery_timeout_ms)
    return QueueOptions(
        acks=level,
        idempotent=idempotent,
        max_in_flight=max_in_flight,
        linger_ms=linger_ms,
        batch_size=batch_size,
        compression=int(codec),
        delivery_timeout_ms=delivery_timeout_ms,
        transactional_id=transactional_id,
    )


class RecordLimit(NamedTuple):
    """The size of the largest record, and the name of the option that raises it."""

    max_bytes: int
    option: str


def record_limit(
    compression_type: str | None, max_request_size: int, *, max_decompressed_bytes: int
) -> RecordLimit:
    """The largest record: with compression, it must also unpack within the readers' limit."""
    whole("max_request_size", max_request_size, 1, REQUEST_BYTES_MAX)
    whole("max_decompressed_bytes", max_decompressed_bytes, 1, DECOMPRESSED_BYTES_LIMIT)
    compressed = (compression_type or "none").lower() != "none"
    if compressed and max_decompressed_bytes < max_request_size:
        return RecordLimit(
            max_decompressed_bytes,
            f"max_decompressed_bytes ({max_decompressed_bytes}); raise it here and for consumers, "
            "and the topic's max.message.decompressed.bytes",
        )
    return RecordLimit(max_request_size, f"max_request_size ({max_request_size})")
