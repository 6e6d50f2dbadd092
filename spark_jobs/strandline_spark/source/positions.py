"""What streams of earlier versions kept beside Spark's checkpoint, whose offsets then said nothing
of their lineage. It is read at the first resume, and never written.

Two files:

* the *initial offsets* (the option `initialOffsetsPath`), where the stream began. Spark asks for
  that again after a restart in which batch 0 had not committed.
* `<initialOffsetsPath>.epochs`, the topic ids that the offsets belong to, and for each partition
  which leader epoch had been seen when which end offset was planned: all records below such an end
  are of that epoch or an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from strandline_proto.ids import topic_id_bytes
from strandline_spark.errors import OptionError
from strandline_spark.source.offsets import (
    Offsets,
    StreamOffset,
    TopicPartition,
    from_json,
    parse_json,
)


@dataclass(slots=True)
class Lineage:
    """Topic ids, and for each partition its leader epochs with the largest end offset seen in
    each.
    """

    topic_ids: dict[str, bytes] = field(default_factory=dict)
    epochs: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)

    def note(self, tp: TopicPartition, *, epoch: int, end: int) -> None:
        """Records below `end` were committed while `epoch` was the leader's."""
        ends = self.epochs.setdefault(tp, {})
        ends[epoch] = max(end, ends.get(epoch, -1))

    def epoch_of(self, tp: TopicPartition, offset: int) -> int | None:
        """The smallest epoch that all records below `offset` are known to be within; None if
        nothing is known.
        """
        fitting = [epoch for epoch, end in self.epochs.get(tp, {}).items() if end >= offset]
        return min(fitting, default=None)

    def completed(self, offset: StreamOffset) -> StreamOffset:
        """`offset` with what it does not say itself."""
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
    """The two files. Either may be absent, and both are without a path."""

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
        """`offset` with the lineage that the file adds to the plain form."""
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
