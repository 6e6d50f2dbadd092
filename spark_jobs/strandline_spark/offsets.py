"""Offsets as Spark stores them: `{"topic": {"0": 23}}`, end-exclusive, the shape that Spark's Kafka
source uses.

Spark compares two offsets as JSON text, so the text must be a function of the offsets alone: topics
are sorted, and partitions sorted by number (an unstable order makes an availableNow run that never
ends).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic, by name. Sorts by topic, then by partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


Offsets = dict[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """The nested form, in the one order that all of our offsets have."""
    out: OffsetJson = {}
    for tp in sorted(offsets):
        out.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return out


def from_json(data: Any) -> Offsets:
    """The inverse of `to_json`. Raises ValueError naming the part that has another shape."""
    if not isinstance(data, dict):
        raise ValueError(f"{data!r} is not an object of topics")
    out: Offsets = {}
    for topic, partitions in data.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{topic!r} has {partitions!r}, not an object of partitions")
        for partition, offset in partitions.items():
            if not str(partition).isdigit():
                raise ValueError(f"{partition!r} of topic {topic!r} is not a partition number")
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise ValueError(f"{offset!r} of {topic}/{partition} is not an offset")
            out[TopicPartition(topic, int(partition))] = offset
    return {tp: out[tp] for tp in sorted(out)}


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for a message: `t/0, t/1`."""
    return ", ".join(str(tp) for tp in sorted(partitions))


def limited(start: Offsets, end: Offsets, max_offsets: int) -> Offsets:
    """`end`, moved back so that at most about `max_offsets` lie between: each backlog is cut in
    proportion.

    Every partition with a backlog moves by at least one, so none starves; hence the sum may pass
    the limit by the number of partitions. `start` holds every partition of `end`.
    """
    backlog = {tp: max(0, end[tp] - start[tp]) for tp in end}
    total = sum(backlog.values())
    if total <= max_offsets:
        return dict(end)
    return {
        tp: start[tp] + min(size, max(1, max_offsets * size // total)) if size > 0 else end[tp]
        for tp, size in backlog.items()
    }
