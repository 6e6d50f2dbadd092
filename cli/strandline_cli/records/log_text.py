"""The contents of a log as people and scripts read it: batches, records, times, bytes."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.offline.batches import Batch
    from strandline_broker.offline.control_records import ControlRecord
    from strandline_broker.offline.group_records import GroupRecord
    from strandline_proto.batch import Record

TEXT_MAX: Final = 60
BATCH_COLUMNS: Final = (
    *("base_offset", "last_offset", "count", "epoch", "producer", "sequence", "compression"),
    *("marks", "max_timestamp", "position", "size", "crc", "valid"),
)


def batch_fields(batch: "Batch") -> dict[str, Any]:
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.count,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "partition_leader_epoch": batch.leader_epoch,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "compression": batch.compression,
        "crc": batch.crc,
        "position": batch.position,
        "size": batch.size,
        "valid": batch.valid,
    }


def batch_cells(batch: "Batch") -> tuple[object, ...]:
    """The cells of BATCH_COLUMNS."""
    has_producer = batch.producer_id >= 0
    marks = (
        ("transactional", batch.is_transactional),
        ("control", batch.is_control),
        ("horizon", batch.has_delete_horizon),
        ("append-time", batch.is_log_append_time),
    )
    return (
        batch.base_offset,
        batch.last_offset,
        batch.count,
        batch.leader_epoch,
        f"{batch.producer_id}:{batch.producer_epoch}" if has_producer else "-",
        batch.base_sequence if batch.base_sequence >= 0 else "-",
        batch.compression,
        ",".join(name for name, is_set in marks if is_set) or "-",
        time_text(batch.max_timestamp),
        batch.position,
        batch.size,
        f"{batch.crc:08x}",
        "yes" if batch.valid else "NO",
    )


def control_line(record: "Record", told: "ControlRecord") -> str:
    """A record of a control batch, in the words of Kafka's own tool."""
    words = [f"  | {record.offset}  {time_text(record.timestamp)}  endTxnMarker={told.kind}"]
    if told.coordinator_epoch is None:
        return words[0].replace("endTxnMarker", "control")
    words.append(f"coordinatorEpoch={told.coordinator_epoch}")
    return "  ".join(words)


def record_fields(record: "Record") -> dict[str, Any]:
    """The record's fields, bytes as base64: a script gets back exactly the written bytes."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [{"key": name, "value": _base64(value)} for name, value in record.headers],
    }


def record_line(record: "Record") -> str:
    words = [f"  | {record.offset}  {time_text(record.timestamp)}"]
    if record.key is not None:
        words.append(f"key={bytes_text(record.key)}")
    words.append(f"value={bytes_text(record.value)}")
    words.extend(f"{name}={bytes_text(value)}" for name, value in record.headers)
    return "  ".join(words)


def group_record_line(record: "Record", told: "GroupRecord") -> str:
    """A record of `__consumer_offsets`: its kind, the fields of its key, those of its value."""
    words = [f"  | {record.offset}  {time_text(record.timestamp)}  {told.kind}"]
    words.append(_fields_text(told.key))
    words.append("tombstone" if told.value is None else _fields_text(told.value))
    return "  ".join(words)


def _fields_text(fields: "Mapping[str, Any]") -> str:
    return " ".join(f"{name}={_json_text(value)}" for name, value in fields.items())


def _json_text(value: object) -> str:
    """Letters of any script as they are, unless something beside them would steer a terminal."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def time_text(timestamp_ms: int) -> str:
    """The time in UTC, to the millisecond; the bare number where no calendar has it."""
    if timestamp_ms < 0:
        return "-"
    try:
        at = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z"


def bytes_text(data: bytes | None) -> str:
    """Printable text in quotes, other bytes in hex; long values are shortened, with their size."""
    if data is None:
        return "null"
    try:
        text = data[: TEXT_MAX * 4].decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode() if error.start >= TEXT_MAX else "\0"
    if not text.isprintable():
        short = data[: TEXT_MAX // 2]
        return f"0x{short.hex()}" + _rest(len(data), len(short))
    return f"'{text[:TEXT_MAX]}'" + _rest(len(data), len(text[:TEXT_MAX].encode()))


def _rest(size: int, shown: int) -> str:
    return f"... ({size} bytes)" if shown < size else ""


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
