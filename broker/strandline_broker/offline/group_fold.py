"""The state in the records of a partition of `__consumer_offsets`: the groups and offsets in a
coordinator's memory after it has loaded them (I-102).

The last record of a key counts, and a tombstone removes it. This uses the keys only, so any subset
that compaction leaves gives the same state (I-103). An offset in a transaction counts from the
commit marker of its producer on, unless a record above it counts by then (I-146).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

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
    pending: dict[str, dict[tuple[str, int], list[Fields]]] = field(default_factory=dict)
    """Offsets in open transactions, in order of their records."""
    unknown: int = 0
    """Number of records with unknown types or versions, which are skipped."""


class TransactionalRecord(NamedTuple):
    """A record in a transactional batch."""

    key: bytes | None
    value: bytes | None
    producer_id: int


class EndMarker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    is_commit: bool


Logged = tuple[bytes | None, bytes | None] | TransactionalRecord | EndMarker
"""A (key, value) pair outside of transactions, or a part of a transaction."""
Place = tuple[str, tuple[Any, ...]]


class _Numbered(NamedTuple):
    number: int
    """Position of the record in the log."""
    record: GroupRecord


_SINGLE = {"group_metadata": "classic", "group_epoch": "epoch", "target_epoch": "target_epoch"}
_KEYED = {
    "member": ("members", "member_id"),
    "target_assignment": ("target", "member_id"),
    "current_assignment": ("current", "member_id"),
    "regular_expression": ("expressions", "regex"),
}


def fold(log: Iterable[Logged]) -> Folded:
    """Fold the parts of the log in order of offset.

    Raises BrokenRecord if a record does not parse.
    """
    live: dict[Place, _Numbered] = {}
    staged: dict[int, dict[Place, _Numbered]] = {}
    unknown = 0
    for number, each in enumerate(log):
        if isinstance(each, EndMarker):
            for place, found in staged.pop(each.producer_id, {}).items():
                if each.is_commit and (place not in live or live[place].number < found.number):
                    live[place] = found
            continue
        key, value = each[0], each[1]
        if key is None:
            raise BrokenRecord("a record without a key")
        record = decode(key, value)
        place = (record.kind, tuple(record.key.values()))
        if record.kind.startswith("type ") or "hex" in (record.value or ()):
            unknown += 1
        elif record.value is None:
            live.pop(place, None)
            for open_transaction in staged.values():
                open_transaction.pop(place, None)
        elif isinstance(each, TransactionalRecord) and record.kind == "offset_commit":
            staged.setdefault(each.producer_id, {})[place] = _Numbered(number, record)
        else:
            live[place] = _Numbered(number, record)
    folded = _gathered((found.record for found in live.values()), unknown)
    _add_pending(folded, staged.values())
    return folded


def _add_pending(folded: Folded, staged: Iterable[Mapping[Place, _Numbered]]) -> None:
    for _, record in sorted(
        (found for places in staged for found in places.values()), key=lambda found: found.number
    ):
        assert record.value is not None, "tombstones are taken out"
        place = (record.key["topic"], record.key["partition"])
        group = folded.pending.setdefault(record.key["group"], {})
        group.setdefault(place, []).append(record.value)


def _gathered(records: Iterable[GroupRecord], unknown: int) -> Folded:
    folded = Folded(unknown=unknown)
    for record in records:
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
