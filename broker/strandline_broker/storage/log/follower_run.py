"""Checks of the batches in a leader's answer, all made before any is appended (I-43, P-52)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_matches,
    read_header,
)
from strandline_proto.errors import CorruptMessage

if TYPE_CHECKING:
    from strandline_runtime.runtime import Buffer


def check_run(
    records: Buffer,
    *,
    log_end_offset: int,
    begins_log: bool,
    latest_epoch: int,
    leader_epoch: int,
    partition: str,
    gaps_below: int = 0,
) -> list[BatchHeader]:
    """The headers of `records`, which must continue at `log_end_offset` with epochs from
    `latest_epoch` to `leader_epoch`.

    Offsets below `gaps_below` may be missing, where the leader has compacted its log. With
    `begins_log` the log is empty. The first batch may then begin before the log's start if it
    reaches it (P-52). Raises CorruptMessage at the first batch that fails a check.
    """
    found: list[BatchHeader] = []
    at, offset, epoch = 0, log_end_offset, max(latest_epoch, 0)
    while at < len(records):
        room = len(records) - at
        if room < HEADER_SIZE:
            raise _refused(partition, at, offset, f"{room} bytes are no batch")
        header = read_header(records, at)
        covers_start = begins_log and at == 0 and header.base_offset < offset <= header.last_offset
        why = _unsound(header, room)
        if why is None:
            is_gap = offset < header.base_offset < gaps_below
            if header.base_offset != offset and not covers_start and not is_gap:
                why = f"base offset {header.base_offset} does not follow"
            elif not epoch <= header.leader_epoch <= leader_epoch:
                why = f"leader epoch {header.leader_epoch} is not within {epoch} to {leader_epoch}"
            elif not crc_matches(records, at, header):
                why = "it does not match its CRC-32C"
        if why is not None:
            raise _refused(partition, at, offset, why)
        found.append(header)
        at += header.size
        offset, epoch = header.next_offset, header.leader_epoch
    return found


def has_gap(found: list[BatchHeader], log_end_offset: int) -> bool:
    """True if offsets are missing before or between these batches."""
    offset = log_end_offset
    for header in found:
        if header.base_offset > offset:
            return True
        offset = header.next_offset
    return False


def _unsound(header: BatchHeader, room: int) -> str | None:
    if header.magic != MAGIC:
        return f"message format {header.magic} is not known"
    if header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
        return f"a batchLength of {header.batch_length} is impossible"
    if header.size > room:
        return f"a batch of {header.size} bytes is cut off after {room}"
    if header.last_offset_delta < 0:
        return "its last offset delta is negative"
    return None


def _refused(partition: str, at: int, offset: int, why: str) -> CorruptMessage:
    return CorruptMessage(
        f"{partition}: the batch at byte {at} of the leader's answer (offset {offset}) is refused: "
        f"{why}; fetch it again"
    )
