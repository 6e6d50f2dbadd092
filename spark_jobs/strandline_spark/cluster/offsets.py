"""Offsets as Spark stores them: `{"topic": {"0": 23}}`, end-exclusive, in the form of Spark's Kafka
source, with their lineage:

    {"t": {"0": 23}, "@lineage": {"t": {"id": "…", "epochs": {"0": 4}, "starts": {"0": 20}}}}

An offset names a record only within one topic (`id`) and one history of leaders. `epochs` bounds
that history: all records below the offset have that leader epoch or an earlier one. `starts` gives
the start of a batch whose partition does not begin where the previous batch ended. That is so in
the first batch of a stream, for a topic that was created again, and after a truncation. The plain
form, without `@lineage`, is read too.

Spark compares two offsets as JSON text, so the text is a function of the offsets alone. Topics are
sorted, and partitions are sorted by number. With an unstable order an availableNow run never ends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline_proto.ids import topic_id_bytes, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LINEAGE: Final = "@lineage"
"""The key of the lineage; no topic can have this name."""
OFFSET_MAX: Final = (1 << 63) - 1
INT32_MAX: Final = (1 << 31) - 1
LATEST: Final = -1
EARLIEST: Final = -2
"""The meaning of these numbers in ListOffsets and in offsets of options."""


class TopicPartition(NamedTuple):
    """One partition of a topic, by name; sorted by topic, then by partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


Offsets = dict[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The position of a stream after a batch, and the lineage of its offsets."""

    ends: Offsets
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    starts: Offsets = field(default_factory=dict)


def begins(start: StreamOffset | None, end: StreamOffset) -> Offsets:
    """Returns the start offsets of the batch from `start` to `end`. A partition that is new to the
    stream starts at its first record.
    """
    before = {} if start is None else start.ends
    return {tp: end.starts.get(tp, before.get(tp, 0)) for tp in end.ends}


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """Returns the nested form, in the one order that all our offsets have."""
    out: OffsetJson = {}
    for tp in sorted(offsets):
        out.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return out


def from_json(data: Any, *, least: int = EARLIEST) -> Offsets:
    """The inverse of `to_json`. LATEST and EARLIEST count as offsets unless `least` is 0. Raises
    ValueError, which names the malformed part.
    """
    words = "" if least == 0 else ", -1 (latest) or -2 (earliest)"
    if not isinstance(data, dict):
        raise ValueError(f"{data!r} is not an object of topics")
    out: Offsets = {}
    for topic, partitions in data.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{topic!r} has {partitions!r}, not an object of partitions")
        for partition, offset in partitions.items():
            tp = TopicPartition(topic, partition_number(partition, topic))
            if type(offset) is not int or not least <= offset <= OFFSET_MAX:
                raise ValueError(f"{offset!r} of {tp} is not an offset{words}")
            out[tp] = offset
    return {tp: out[tp] for tp in sorted(out)}


def partition_number(text: str, topic: str) -> int:
    """Returns `text` as a partition number. A number has only one valid spelling."""
    number = decimal(text)
    if number is None or number > INT32_MAX or str(number) != text:
        raise ValueError(f"{text!r} of topic {topic!r} is not a partition number")
    return number


def stream_to_json(offset: StreamOffset) -> dict[str, Any]:
    """Returns the form that Spark checkpoints."""
    out: dict[str, Any] = dict(to_json(offset.ends))
    lineage: dict[str, Any] = {}
    epochs, starts = to_json(offset.epochs), to_json(offset.starts)
    for topic in sorted(offset.topic_ids):
        lineage[topic] = {"id": topic_id_text(offset.topic_ids[topic])}
        if topic in epochs:
            lineage[topic]["epochs"] = epochs[topic]
        if topic in starts:
            lineage[topic]["starts"] = starts[topic]
    return out | {LINEAGE: lineage} if lineage else out


def stream_from_json(data: Any, *, least: int = EARLIEST) -> StreamOffset:
    """The inverse of `stream_to_json`; it accepts the plain form too.

    LATEST and EARLIEST are allowed in options, but not in checkpoints (`least` is 0 there). Raises
    ValueError.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{data!r} is not an object of topics")
    plain = {topic: found for topic, found in data.items() if topic != LINEAGE}
    ends = from_json(plain, least=least)
    lineage = data.get(LINEAGE, {})
    if not isinstance(lineage, dict):
        raise ValueError(f"{LINEAGE} is {lineage!r}, not an object of topics")
    ids: dict[str, bytes] = {}
    of: dict[str, dict[str, Any]] = {"epochs": {}, "starts": {}}
    for topic, found in lineage.items():
        if not isinstance(found, dict) or not {"id"} <= set(found) <= {"id", *of}:
            raise ValueError(f"{LINEAGE} of {topic!r} is {found!r}, not its id, epochs and starts")
        try:
            ids[topic] = bytes(topic_id_bytes(found["id"]))
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f"{found['id']!r} of {topic!r} is not a topic id") from None
        for name, parts in of.items():
            parts[topic] = found.get(name, {})
    epochs, starts = from_json(of["epochs"]), from_json(of["starts"])
    for tp, number in (*epochs.items(), *starts.items()):
        if number < 0:
            raise ValueError(f"{LINEAGE} of {tp} holds {number}, which is below 0")
    return StreamOffset(ends, ids, epochs, starts)


def decimal(text: str) -> int | None:
    """Returns a whole number of the digits 0 to 9, at most 2^63 - 1; None for any other text."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    number = int(text)
    return number if number <= OFFSET_MAX else None


def parse_json(text: str) -> Any:
    """Parses JSON in which no object has a key twice. Raises ValueError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"the key {key!r} stands there twice")
            found[key] = value
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def names(partitions: Iterable[TopicPartition]) -> str:
    """Returns the partitions for a message: `t:0, t:1`."""
    return ", ".join(str(tp) for tp in sorted(partitions))


def limited(start: Offsets, end: Offsets, max_offsets: int) -> Offsets:
    """Returns `end`, moved back so that at most about `max_offsets` lie between: each backlog is
    cut in proportion.

    Every partition with a backlog advances by at least one, so none starves. So the sum may exceed
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
