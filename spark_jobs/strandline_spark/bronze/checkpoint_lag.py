"""The lag of a checkpoint's query behind its topics: offsets against high watermarks.

Spark stores the end of the last finished batch, and the end of the planned batch that may be in
progress. These functions read them from the checkpoint, so the job need not run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.checkpoint import read_checkpoint
from strandline_spark.cluster.cluster import Cluster, close_channels
from strandline_spark.cluster.offsets import StreamOffset, begins
from strandline_spark.errors import TableError

if TYPE_CHECKING:
    from strandline_spark.cluster.cluster import Mark
    from strandline_spark.cluster.offsets import Offsets, TopicPartition

NOT_THERE: Final = -1


@dataclass(slots=True)
class PartitionLag:
    """One partition of a checkpoint's query. Offsets are -1 if unknown."""

    topic: str
    partition: int
    done: int
    """End of the last finished batch: the next offset that the query has not read."""
    planned: int
    """End of the last planned batch."""
    log_start: int = NOT_THERE
    high_watermark: int = NOT_THERE
    lag: int = NOT_THERE
    problems: list[str] = field(default_factory=list)


def checkpoint_lag(checkpoint: str, bootstrap: tuple[str, ...]) -> list[PartitionLag]:
    """Returns the partitions in order, those included that appeared since. Raises TableError if
    there is no such checkpoint, and ClusterUnreachable.
    """
    done, planned, ids = _stored(checkpoint)
    topics = sorted({tp.topic for tp in planned})
    cluster = Cluster(bootstrap, read_committed=True)
    try:
        leaders, _ = cluster.existing(topics)
        marks = cluster.marks(leaders)
    finally:
        close_channels()
    return [
        _lag_of(tp, done.get(tp), planned.get(tp), marks.get(tp), ids.get(tp.topic))
        for tp in sorted(set(planned) | set(marks))
    ]


def _stored(checkpoint: str) -> tuple[Offsets, Offsets, dict[str, bytes]]:
    """Returns the finished and the planned offsets, and the topic ids that the checkpoint has."""
    found = read_checkpoint(checkpoint)
    if found is None or not found.planned:
        raise TableError(
            f"{checkpoint} is no checkpoint of a query that has begun; give the path that the job"
            " was given as --checkpoint"
        )
    last = found.planned[-1]
    planned = found.end(last)
    if not found.done:
        # The first batch says where the query began.
        return begins(None, planned), planned.ends, planned.topic_ids
    done: StreamOffset = planned if found.done[-1] == last else found.end(found.done[-1])
    return done.ends, planned.ends, done.topic_ids


def _lag_of(
    tp: TopicPartition,
    done: int | None,
    planned: int | None,
    mark: Mark | None,
    topic_id: bytes | None,
) -> PartitionLag:
    found = PartitionLag(
        tp.topic,
        tp.partition,
        NOT_THERE if done is None else done,
        NOT_THERE if planned is None else planned,
    )
    if mark is None:
        found.problems.append("the cluster has no such partition")
        return found
    found.log_start, found.high_watermark = mark.log_start, mark.high_watermark
    if topic_id is not None and topic_id != mark.topic_id:
        found.problems.append(
            f"the topic was deleted and created again: its id was {topic_id_text(topic_id)}, now"
            f" {topic_id_text(mark.topic_id)}"
        )
        return found
    # A partition that appeared since is read from its first record on.
    at = mark.log_start if done is None else done
    found.lag = max(0, mark.high_watermark - at)
    if at < mark.log_start:
        found.problems.append(
            f"retention took [{at}, {mark.log_start}) before it was read; the job stops there"
            " unless its option says to record what is lost"
        )
    if at > mark.high_watermark:
        found.problems.append(
            f"it was read up to {at}, past the high watermark {mark.high_watermark}: the log was"
            " cut back, or its replicas are catching up"
        )
    return found
