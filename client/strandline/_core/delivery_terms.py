"""The terms of delivery: options of a producer, answers of leaders, errors for the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline.errors import DeliveryTimedOut, OutcomeUnknown, RecordTooLarge, describe
from strandline_proto.batch import raw_records, read_header
from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT, Bound
from strandline_proto.errors import (
    InvalidProducerEpoch,
    OutOfOrderSequenceNumber,
    UnknownProducerId,
)

if TYPE_CHECKING:
    from strandline._core.producer_batch import ProducerBatch

LOST_IDENTITY: Final = frozenset(
    {OutOfOrderSequenceNumber.code, InvalidProducerEpoch.code, UnknownProducerId.code}
)
"""Codes of a sequence that does not fit the leader's state of the producer: not written."""


PACKED_HERE: Final = Bound(DECOMPRESSED_BYTES_LIMIT, "what a batch may unpack to")
"""The bound for batches that this producer has packed itself."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    acks: int
    idempotent: bool
    max_in_flight: int
    linger_ms: float
    batch_size: int
    compression: int
    delivery_timeout_ms: float
    transactional_id: str | None = None


class Identity(NamedTuple):
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A leader's answer about one batch."""

    code: int
    message: str
    appended: bool
    base_offset: int = -1
    leader_epoch: int = -1
    log_append_time_ms: int = -1


def failure(batch: ProducerBatch, where: str, cause: Exception) -> Exception:
    """`cause` itself if the records are certainly not in the log, else OutcomeUnknown (I-21)."""
    if not batch.may_be_written:
        return cause
    return OutcomeUnknown(
        f"{where}: {batch.count} records may or may not be in the log: {describe(cause)}",
        cause=cause,
        may_have_been_written=True,
    )


def expired(
    batch: ProducerBatch, where: str, cause: BaseException | None, timeout_ms: float
) -> DeliveryTimedOut:
    """The error of a batch past its delivery deadline; `cause` is the last obstacle."""
    known = "may or may not be in the log" if batch.may_be_written else "were not written"
    why = describe(cause) if cause is not None else "no answer came"
    return DeliveryTimedOut(
        f"{where}: {batch.count} records not acknowledged within {timeout_ms:.0f} ms, "
        f"they {known}: {why}",
        cause=cause,
        may_have_been_written=batch.may_be_written,
    )


def too_large(batch: ProducerBatch, where: str, error: Exception) -> RecordTooLarge:
    """The refusal of a batch that is one record, by the size of that record."""
    record = next(raw_records(batch.data, read_header(batch.data), PACKED_HERE))
    size = len(record.key or b"") + len(record.value or b"")
    size += sum(len(name.encode()) + len(text or b"") for name, text in record.headers)
    return RecordTooLarge(
        f"{where}: a record of {size} bytes (key, value and headers) is too large: {error}"
    )
