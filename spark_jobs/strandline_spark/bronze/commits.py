"""The account in a commit of a fenced table. It has the offset ranges that the commit took in, with
their rows, skipped and lost offsets, and the topic's end at that time.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from strandline_proto.ids import topic_id_bytes
from strandline_spark.cluster.offsets import INT32_MAX, OFFSET_MAX, TopicPartition
from strandline_spark.errors import TableError

METADATA_FORMAT: Final = 4
METADATA_FORMATS: Final = (1, 2, 3, 4)
"""The formats that are read. Format 1 had no lost records, since it stopped at them. Format 2 did
not describe the records of a range. Format 3 knew only raw records.
"""


_MAY_BE_UNKNOWN: Final = (
    "skipped",
    "size",
    "offset_min",
    "offset_max",
    "leader_epoch_min",
    "leader_epoch_max",
    "timestamp_min_ms",
    "timestamp_max_ms",
    "high_watermark",
)


@dataclass(frozen=True, slots=True)
class CommittedRange:
    """The range [start, end) of one partition that one commit took in, with its account."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    rows: int
    skipped: int | None
    """Offsets without a record (control batches, compacted); None if the job did not see them."""
    leader_epoch: int
    """The leader's epoch when the range was planned; -1 if unknown."""
    lost: int = 0
    """Offsets whose records retention had removed before they were read."""
    size: int | None = None
    """Bytes of the files that hold the rows; None in commits of earlier versions, as below."""
    offset_min: int | None = None
    offset_max: int | None = None
    """Largest offset of the rows, as below for epochs and timestamps; None without a row."""
    leader_epoch_min: int | None = None
    leader_epoch_max: int | None = None
    timestamp_min_ms: int | None = None
    timestamp_max_ms: int | None = None
    high_watermark: int | None = None
    """High watermark when the range was planned; None if the job did not see it."""

    elsewhere: int = 0
    """Records of the batch in the other table: for silver those in quarantine, and the reverse."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of the table that a job made."""

    version: int
    committed_at_ms: int
    job: str
    batch_id: int
    ranges: list[CommittedRange]


def to_metadata(app_id: str, batch_id: int, ranges: list[CommittedRange]) -> dict[str, Any]:
    return {
        "format": METADATA_FORMAT,
        "job": app_id,
        "batch_id": batch_id,
        "ranges": [asdict(one) for one in ranges],
    }


def from_metadata(data: Any, file: str, version: int = -1, committed_at_ms: int = -1) -> Commit:
    """Returns the account in a commit's `file`, from what delta-rs parsed or left as JSON. Raises
    TableError unless one of our jobs wrote it.
    """
    try:
        if isinstance(data, str):
            data = json.loads(data)
        if data["format"] not in METADATA_FORMATS:
            raise ValueError(f"format {data['format']!r}, known are {METADATA_FORMATS}")
        job, batch_id = data["job"], data["batch_id"]
        if not isinstance(job, str) or type(batch_id) is not int:
            raise TypeError(f"the job is {job!r}, the batch {batch_id!r}")
        ranges = [_checked(CommittedRange(**one)) for one in data["ranges"]]
        return Commit(version, committed_at_ms, job, batch_id, ranges)
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
        "lost": (0, OFFSET_MAX),
        "leader_epoch": (-1, INT32_MAX),
        "size": (0, OFFSET_MAX),
        "offset_min": (one.start, one.end),
        "offset_max": (one.start, one.end),
        "leader_epoch_min": (-1, INT32_MAX),
        "leader_epoch_max": (-1, INT32_MAX),
        "timestamp_min_ms": (-OFFSET_MAX, OFFSET_MAX),
        "timestamp_max_ms": (-OFFSET_MAX, OFFSET_MAX),
        "high_watermark": (0, OFFSET_MAX),
        "elsewhere": (0, OFFSET_MAX),
    }
    for name, (least, most) in limits.items():
        value = getattr(one, name)
        if value is None and name in _MAY_BE_UNKNOWN:
            continue
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{name} is {value!r}")
    return one
