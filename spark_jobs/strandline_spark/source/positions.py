"""The files that earlier versions kept beside Spark's checkpoint, whose offsets then had no
lineage. The first resume reads them; they are never written.

There are two files:

* The *initial offsets* (the option `initialOffsetsPath`), where the stream began. Spark asks for
  them again after a restart before batch 0 committed.
* `<initialOffsetsPath>.epochs`: the topic ids of the offsets. For each partition it also has each
  leader epoch with the end offset planned under it. All records below such an end have that epoch
  or an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from strandline_proto.ids import topic_id_bytes
from strandline_spark.cluster.offsets import (
    Offsets,
    StreamOffset,
    TopicPartition,
    from_json,
    parse_json,
)
from strandline_spark.errors import OptionError


@dataclass(slots=True)
class Lineage:
    """Topic ids, and each partition's leader epochs with the largest end offset seen in each."""

    topic_ids: dict[str, bytes] = field(default_factory=dict)
    epochs: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)

    def note(self, tp: TopicPartition, *, epoch: int, end: int) -> None:
        """Notes that records below `end` were committed while the leader had this `epoch`."""
        ends = self.epochs.setdefault(tp, {})
        ends[epoch] = max(end, ends.get(epoch, -1))

    def epoch_of(self, tp: TopicPartition, offset: int) -> int | None:
        """Returns the smallest known epoch that is not below the epoch of any record below
        `offset`; None if nothing is known.
        """
        fitting = [epoch for epoch, end in self.epochs.get(tp, {}).items() if end >= offset]
        return min(fitting, default=None)

    def completed(self, offset: StreamOffset) -> StreamOffset:
        """Returns `offset` with the lineage that it lacks."""
        plain = {tp: end for tp, end in offset.ends.items() if tp.topic not in offset.topic_ids}
        ids = {tp.topic: self.topic_ids[tp.topic] for tp in plain if tp.topic in self.topic_ids}
        epochs = {tp: self.epoch_of(tp, end) for tp, end in plain.items() if tp.topic in ids}
        known = {tp: epoch for tp, epoch in epochs.items() if epoch is not None}
        return replace(offset, topic_ids=ids | offset.topic_ids, epochs=known | offset.epochs)

    @classmethod
    def from_data(cls, data: Any) -> Lineage:
        ids = {topic: bytes(topic_id_bytes(text)) for topic, text in data["topic_ids"].items()}
        epochs = {
            TopicPartition(topic, int(partition)): {int(epoch): int(end) for epoch, end in entries}
            for topic, partitions in data["epochs"].items()
            for partition, entries in partitions.items()
        }
        return cls(ids, epochs)


class PositionFiles:
    """The two files. Either may be absent; without a path both are."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._lineage: Lineage | None = None

    def initial(self) -> Offsets | None:
        data = _read(self.path)
        if data is None:
            return None
        try:
            return from_json(data["offsets"])
        except (AttributeError, KeyError, TypeError, ValueError) as why:
            raise _unreadable(self.path, why) from why

    def completed(self, offset: StreamOffset) -> StreamOffset:
        """Returns `offset` with the lineage that the file adds to the plain form."""
        if self._lineage is None:
            self._lineage = self.lineage()
        return self._lineage.completed(offset)

    def lineage(self) -> Lineage:
        path = None if self.path is None else f"{self.path}.epochs"
        data = _read(path)
        if data is None:
            return Lineage()
        try:
            return Lineage.from_data(data)
        except (AttributeError, KeyError, TypeError, ValueError) as why:
            raise _unreadable(path, why) from why


def _read(path: str | None) -> Any:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            data = parse_json(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as why:
        raise _unreadable(path, why) from why
    if data is None:
        raise _unreadable(path, ValueError("it holds nothing"))
    return data


def _unreadable(path: str | None, why: Exception) -> OptionError:
    return OptionError(
        f"{path} is not a file of offsets that this source wrote ({why!r}); restore it, or start "
        "a new checkpoint"
    )
