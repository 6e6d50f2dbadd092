"""Record batches as pages show them: payloads cut to a length that a page can hold."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from strandline_console.answers import BatchHeader as ShownHeader
from strandline_console.answers import Payload, RecordHeader, RecordRow
from strandline_proto import batch as record_batch
from strandline_proto.decompression import Compression
from strandline_proto.errors import WireError

TEXT_MAX: Final = 64 << 10
HEX_MAX: Final = 4 << 10
HEADERS_MAX: Final = 100
BYTES_MAX: Final = 4 << 20
"""Limit of the text of one answer, so that a page of large values stays small."""


@dataclass(slots=True)
class Shown:
    """Batches and records of an answer."""

    batches: list[ShownHeader] = field(default_factory=list)
    records: list[RecordRow] = field(default_factory=list)
    next_offset: int = 0
    text_left: int = BYTES_MAX
    damage: str | None = None
    """Why the records of the last batch are not shown; None if they are."""


def payload(data: bytes | None, text_max: int = TEXT_MAX) -> Payload | None:
    """A key or a value, as far as it is shown; None for none."""
    if data is None:
        return None
    shown = _text(data, text_max)
    is_cut = len(data) > (HEX_MAX if shown is None else text_max)
    return Payload(
        size=len(data),
        text=shown,
        json=shown is not None and not is_cut and _is_json(shown),
        hex=data[:HEX_MAX].hex(),
        truncated=is_cut,
    )


def _text(data: bytes, text_max: int) -> str | None:
    """The bytes as UTF-8. A cut within a character is no fault of the text."""
    for end in range(text_max, max(0, text_max - 4), -1):
        try:
            return data[:end].decode("utf-8")
        except UnicodeDecodeError:
            if len(data) <= text_max:
                return None
    return None


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def show_batches(data: bytes, *, first: int, limit: int, shown: Shown) -> bool:
    """Add the records from offset `first` on. True once `limit` records are there."""
    shown.next_offset = max(shown.next_offset, first)
    for at, header in record_batch.iter_headers(data):
        if header.next_offset <= first:
            continue
        if len(shown.records) >= limit:
            return True
        index = len(shown.batches)
        shown.batches.append(_header(header))
        try:
            for record in record_batch.read_records(data, at, header):
                if record.offset < first:
                    continue
                if len(shown.records) >= limit:
                    return True
                shown.records.append(_row(record, header, index, shown))
                shown.next_offset = record.offset + 1
        except WireError as why:
            shown.damage = f"the records of the batch at {header.base_offset} cannot be read: {why}"
        shown.next_offset = max(shown.next_offset, header.next_offset)
    return len(shown.records) >= limit


def _row(
    record: record_batch.Record, header: record_batch.BatchHeader, index: int, shown: Shown
) -> RecordRow:
    timestamp = header.max_timestamp if header.is_log_append_time else record.timestamp
    return RecordRow(
        offset=record.offset,
        timestamp_ms=timestamp if timestamp >= 0 else None,
        batch=index,
        key=_taken(record.key, shown),
        value=_taken(record.value, shown),
        headers=list(_headers(record, shown)),
    )


def _headers(record: record_batch.Record, shown: Shown) -> Iterator[RecordHeader]:
    for name, value in record.headers[:HEADERS_MAX]:
        yield RecordHeader(name=name[:TEXT_MAX], value=_taken(value, shown))


def _taken(data: bytes | None, shown: Shown) -> Payload | None:
    found = payload(data, max(256, min(TEXT_MAX, shown.text_left)))
    if found is not None:
        shown.text_left -= len(found.text or "") + len(found.hex)
    return found


def _header(header: record_batch.BatchHeader) -> ShownHeader:
    try:
        codec = Compression(header.compression).name.lower()
    except ValueError:
        codec = f"unknown ({header.compression})"
    return ShownHeader(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        codec=codec,
        timestamp_type="append" if header.is_log_append_time else "create",
        control=header.is_control,
        transactional=header.is_transactional,
        size=header.size,
        records=header.record_count,
    )
