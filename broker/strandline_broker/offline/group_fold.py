"""The state in the records of a partition of `__consumer_offsets`: the groups and offsets in a
coordinator's memory after it has loaded them (I-102).

The last record of a key counts, and a tombstone removes it. This uses the keys only, so any subset
that compaction leaves gives the same state (I-103). Transactions are not interpreted: offsets
committed in one count as they are.
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
    """A group as its records describe it; a classic one has only `classic`."""

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
    """Committed offsets by group, then by topic name and partition."""
    unknown: int = 0
    """Number of records with unknown types or versions, which are skipped."""


_SINGLE = {"group_metadata": "classic", "group_epoch": "epoch", "target_epoch": "target_epoch"}
_KEYED = {
    "member": ("members", "member_id"),
    "target_assignment": ("target", "member_id"),
    "current_assignment": ("current", "member_id"),
    "regular_expression": ("expressions", "regex"),
}


def fold(records: Iterable[tuple[bytes | None, bytes | None]]) -> Folded:
    """Fold the (key, value) pairs in order of offset, without control records.

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
