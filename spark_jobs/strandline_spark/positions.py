"""What a stream keeps beside Spark's checkpoint, because Spark keeps offsets only and never tells a
source where.

Two files, both written whole and then renamed into place:

* the *initial offsets* (the option `initialOffsetsPath`), written once. Spark asks for the initial
  offset again after a restart in which batch 0 had not committed; without the file `latest` would
  be another offset by then, and the records between would be lost with no error.
* `<initialOffsetsPath>.epochs`, the topic ids that the offsets belong to, and for each partition
  which leader epoch had been seen when which end offset was planned. Committed records below such
  an end are of that epoch or an earlier one, so a leader whose log leaves the epoch before that
  offset has lost records that were read (KIP-320). It is written before an end offset is handed to
  Spark, hence before Spark can have logged it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Final

from strandline_proto.ids import topic_id_bytes, topic_id_text
from strandline_spark.errors import OptionError
from strandline_spark.offsets import Offsets, TopicPartition, from_json, to_json

FORMAT: Final = 1


@dataclass(slots=True)
class Lineage:
    """Topic ids, and for each partition its leader epochs with the largest end offset planned in
    each.
    """

    topic_ids: dict[str, bytes] = field(default_factory=dict)
    epochs: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)

    def note(self, tp: TopicPartition, *, epoch: int, end: int) -> bool:
        """Records that `end` was planned while `epoch` was the leader's; whether that says anything
        new.
        """
        ends = self.epochs.setdefault(tp, {})
        if end <= ends.get(epoch, -1):
            return False
        ends[epoch] = end
        return True

    def epoch_of(self, tp: TopicPartition, offset: int) -> int | None:
        """The smallest epoch that all records below `offset` are known to be within; None if
        nothing is known.
        """
        fitting = [epoch for epoch, end in self.epochs.get(tp, {}).items() if end >= offset]
        return min(fitting, default=None)

    def to_data(self) -> dict[str, Any]:
        epochs: dict[str, dict[str, list[list[int]]]] = {}
        for tp in sorted(self.epochs):
            entries = [[epoch, end] for epoch, end in sorted(self.epochs[tp].items())]
            epochs.setdefault(tp.topic, {})[str(tp.partition)] = entries
        ids = {topic: topic_id_text(self.topic_ids[topic]) for topic in sorted(self.topic_ids)}
        return {"format": FORMAT, "topic_ids": ids, "epochs": epochs}

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
    """The two files. Without a path both are absent, and nothing outlives the process."""

    def __init__(self, path: str | None) -> None:
        self.path = path

    def initial(self) -> Offsets | None:
        data = self._read(self.path)
        if data is None:
            return None
        try:
            return from_json(data["offsets"])
        except (AttributeError, KeyError, TypeError, ValueError) as why:
            raise _unreadable(self.path, why) from why

    def write_initial(self, offsets: Offsets) -> Offsets:
        """Stores the offsets unless some are stored already; what is stored afterwards."""
        if self.path is None:
            return offsets
        data = {"format": FORMAT, "offsets": to_json(offsets)}
        temporary = _write_beside(self.path, data)
        try:
            # A link fails if the name is taken, so the first writer wins, whole.
            os.link(temporary, self.path)
        except FileExistsError:
            stored = self.initial()
            if stored is None:
                raise _unreadable(self.path, ValueError("it holds nothing")) from None
            return stored
        finally:
            os.unlink(temporary)
        return offsets

    def lineage(self) -> Lineage:
        path = self._lineage_path()
        data = self._read(path)
        if data is None:
            return Lineage()
        try:
            return Lineage.from_data(data)
        except (AttributeError, KeyError, TypeError, ValueError) as why:
            raise _unreadable(path, why) from why

    def write_lineage(self, lineage: Lineage) -> None:
        path = self._lineage_path()
        if path is not None:
            os.replace(_write_beside(path, lineage.to_data()), path)

    def _lineage_path(self) -> str | None:
        return None if self.path is None else f"{self.path}.epochs"

    def _read(self, path: str | None) -> Any:
        if path is None:
            return None
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as why:
            raise _unreadable(path, why) from why


def _write_beside(path: str, data: Any) -> str:
    """A durable file next to `path` that holds `data`; the caller gives it its name."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(data, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    return temporary


def _unreadable(path: str | None, why: Exception) -> OptionError:
    return OptionError(
        f"{path} is not a file of offsets that this source wrote ({why!r}); restore it, or start "
        "a new checkpoint"
    )
