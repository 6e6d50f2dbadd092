"""What a commit of the bronze table says of itself: the offset ranges that it took in."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from strandline_proto.ids import topic_id_bytes
from strandline_spark.errors import TableError
from strandline_spark.offsets import TopicPartition

METADATA_FORMAT: Final = 1
OFFSET_MAX: Final = (1 << 63) - 1
INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class CommittedRange:
    """[start, end) of one partition as one commit took it in, and what came of it."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    rows: int
    skipped: int | None
    """Offsets without a record (control batches, compacted); None if the job did not see them."""
    leader_epoch: int
    """The leader's epoch when the range was planned; -1 if it is not known."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def to_metadata(app_id: str, batch_id: int, ranges: list[CommittedRange]) -> dict[str, Any]:
    return {
        "format": METADATA_FORMAT,
        "job": app_id,
        "batch_id": batch_id,
        "ranges": [asdict(one) for one in ranges],
    }


def from_metadata(data: Any, file: str) -> list[CommittedRange]:
    """The ranges in what delta-rs has read, or has left as JSON, from a commit's `file`.
    TableError unless a job of ours wrote it.
    """
    try:
        if isinstance(data, str):
            data = json.loads(data)
        if data["format"] != METADATA_FORMAT:
            raise ValueError(f"format {data['format']!r}, known is {METADATA_FORMAT}")
        return [_checked(CommittedRange(**one)) for one in data["ranges"]]
    except (KeyError, TypeError, ValueError, RecursionError) as why:
        raise TableError(
            f"{file} is no commit that this job can account for ({type(why).__name__}: {why}): put "
            "the file back from a copy, read the table with the version that wrote it, or ingest "
            "into a new table"
        ) from why


def _checked(one: CommittedRange) -> CommittedRange:
    topic_id_bytes(one.topic_id)
    if not isinstance(one.topic, str):
        raise TypeError(f"the topic is {one.topic!r}")
    limits = {
        "partition": (0, INT32_MAX),
        "start": (0, one.end),
        "end": (0, OFFSET_MAX),
        "rows": (0, OFFSET_MAX),
        "skipped": (0, OFFSET_MAX),
        "leader_epoch": (-1, INT32_MAX),
    }
    for name, (least, most) in limits.items():
        value = getattr(one, name)
        if name == "skipped" and value is None:
            continue
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{name} is {value!r}")
    return one
