"""Expiry of committed offsets, and of a group with its last offset.

An offset lives `offsets.retention.minutes` from its last commit or, if that was later, from the
time when its group became empty. While members of the group subscribe to its topic, it lives at any
age (I-148, P-110). It lives too while an open transaction contains an offset of its partition. A
value with its own expiry ends by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.groups.classic.consumer_protocol import CONSUMER_PROTOCOL
from strandline_broker.core.groups.classic.decisions import forget
from strandline_broker.core.groups.classic.group import GroupState
from strandline_broker.core.groups.commands import EXPIRED_AT_ONCE_MAX
from strandline_broker.core.groups.records.classic_records import GroupMetadataKey
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_proto.errors import GroupIdNotFound, NonEmptyGroup

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import DeleteGroup, Expire
    from strandline_broker.core.groups.context import Context
    from strandline_broker.core.groups.effects import Effect
    from strandline_broker.core.groups.group_table import GroupTable


def expire(table: GroupTable, command: Expire, context: Context) -> Decision[int, Effect]:
    group_id = command.group_id
    wall_ms = context.inputs.wall_ms
    retention_ms = context.settings.offsets_retention_ms
    expired: list[Record] = []
    kept = group_id in table.pending.groups
    bases = _Bases(table, group_id)
    for topic, partition, value in table.offsets_of(group_id):
        base = bases.of(topic, value)
        due = base is not None and wall_ms >= base + retention_ms
        if value.expire_timestamp_ms is not None:
            due = base is not None and wall_ms >= value.expire_timestamp_ms
        is_pending = table.pending.is_pending(group_id, topic, partition)
        if due and not is_pending and len(expired) < EXPIRED_AT_ONCE_MAX:
            expired.append(Record(OffsetCommitKey(group_id, topic, partition), None))
        else:
            kept = True
    records = tuple(expired)
    if not kept and _is_empty(table, group_id) and group_id not in table.live:
        records += _group_tombstones(table, group_id)
    return Decision(records, len(expired), about=group_id)


def delete_group(
    table: GroupTable, command: DeleteGroup, context: Context
) -> Decision[None, Effect]:
    """Delete a group with all its offsets, pending ones too; only an empty group (I-151)."""
    group_id = command.group_id
    if not table.is_known(group_id):
        raise GroupIdNotFound(f"there is no group {group_id!r}")
    if not _is_empty(table, group_id):
        raise NonEmptyGroup(
            f"group {group_id!r} has {_members(table, group_id)} members: stop them first, or "
            "remove them"
        )
    committed = {(topic, partition) for topic, partition, _ in table.offsets_of(group_id)}
    pending = {(topic, partition) for topic, partition, _ in table.pending.of_group(group_id)}
    offsets = tuple(
        Record(OffsetCommitKey(group_id, topic, partition), None)
        for topic, partition in sorted(committed | pending)
    )
    records = (*offsets, *_group_tombstones(table, group_id))
    return Decision(records, None, forget(table, group_id), about=group_id)


class _Bases:
    """The times from which the age of a group's offsets counts."""

    def __init__(self, table: GroupTable, group_id: str) -> None:
        self._subscribed: set[str] | None = set()
        """Topics whose offsets do not expire; None: all."""
        self._empty_since = 0
        group = table.consumer.get(group_id)
        if group is not None:
            self._subscribed = group.subscribed_names()
            self._empty_since = 0 if group.members else group.assigned_at_ms
            return
        classic = table.classic_group(group_id)
        if classic is None:
            return
        if classic.is_void:
            self._empty_since = classic.changed_at_ms or 0
        elif classic.state is GroupState.STABLE and classic.protocol_type == CONSUMER_PROTOCOL:
            self._subscribed = classic.subscribed_names()
        else:
            self._subscribed = None

    def of(self, topic: str, value: OffsetCommitValue) -> int | None:
        """Wall-clock time from which the offset's age counts; None: it does not expire now."""
        if self._subscribed is None or topic in self._subscribed:
            return None
        return max(value.commit_timestamp_ms, self._empty_since)


def _members(table: GroupTable, group_id: str) -> int:
    if group_id in table.consumer:
        return len(table.consumer[group_id].members)
    group = table.classic_group(group_id)
    return 0 if group is None else len(group.members)


def _is_empty(table: GroupTable, group_id: str) -> bool:
    return _members(table, group_id) == 0


def _group_tombstones(table: GroupTable, group_id: str) -> tuple[Record, ...]:
    """A tombstone for every key that an empty group may have in the log."""
    group = table.consumer.get(group_id)
    records = () if group is None else group.tombstones()
    if group_id in table.classic:
        records += (Record(GroupMetadataKey(group_id), None),)
    return records
