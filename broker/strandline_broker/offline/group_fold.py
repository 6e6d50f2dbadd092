"""What the records of a partition of `__consumer_offsets` come to: the groups and the offsets that
a coordinator has in memory once it has loaded them (I-102).

The last record of a key counts, and a tombstone ends it. Only what a key says is used for that, so
that any subset that compaction leaves comes to the same (I-103). Of transactions nothing is known
here: offsets committed in one are taken as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strandline_broker.offline.group_records import BrokenRecord, GroupRecord, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Fields = dict[str, Any]


@dataclass(slots=True)
class FoldedGroup:
    """A group as its records describe it; a classic one has `classic` and nothing else."""

    classic: Fields | None = None
    epoch: Fields | None = None
    target_epoch: Fields | None = None
    members: dict[str, Fields] = field(default_factory=dict)
    target: dict[str, Fields] = field(default_factory=dict)
    current: dict[str, Fields] = field(default_factory=dict)
    expressions: dict[str, Fields] = field(default_factory=dict)


@dataclass(slots=True)
class Folded:
    groups: dict[str, FoldedGroup] = field(default_factory=dict)
    offsets: dict[str, dict[tuple[str, int], Fields]] = field(default_factory=dict)
    """By group, then by topic's name and partition."""
    unknown: int = 0
    """Records of types and versions that are skipped."""


_SINGLE = {"group_metadata": "classic", "group_epoch": "epoch", "target_epoch": "target_epoch"}
_KEYED = {
    "member": ("members", "member_id"),
    "target_assignment": ("target", "member_id"),
    "current_assignment": ("current", "member_id"),
    "regular_expression": ("expressions", "regex"),
}


def fold(records: Iterable[tuple[bytes | None, bytes | None]]) -> Folded:
    """The (key, value) pairs in order of offset, control records left out.

    Raises BrokenRecord if a record does not parse.
    """
    live: dict[tuple[str, tuple[Any, ...]], GroupRecord] = {}
    unknown = 0
    for key, value in records:
        if key is None:
            raise BrokenRecord("a record without a key")
        record = decode(key, value)
        place = (record.kind, tuple(record.key.values()))
        if record.kind.startswith("type ") or "hex" in (record.value or ()):
            unknown += 1
        elif record.value is None:
            live.pop(place, None)
        else:
            live[place] = record
    return _gathered(live, unknown)


def _gathered(live: Mapping[Any, GroupRecord], unknown: int) -> Folded:
    folded = Folded(unknown=unknown)
    for record in live.values():
        assert record.value is not None, "tombstones are taken out"
        name = record.key["group"]
        if record.kind == "offset_commit":
            place = (record.key["topic"], record.key["partition"])
            folded.offsets.setdefault(name, {})[place] = record.value
            continue
        group = folded.groups.setdefault(name, FoldedGroup())
        if record.kind in _SINGLE:
            setattr(group, _SINGLE[record.kind], record.value)
        else:
            table, by = _KEYED[record.kind]
            getattr(group, table)[record.key[by]] = record.value
    return folded
