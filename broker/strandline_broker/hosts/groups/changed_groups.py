"""The groups of a broker that have changed, for its watchers; empty while there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.core.groups.records.consumer_records import ConsumerGroupMetadataKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.coordination.decision import Record
    from strandline_broker.hosts.common.events import Events

CHANGED_MAX: Final = 10_000
"""Limit of groups that are stored; a watcher that has missed older changes lists all groups."""


class Rebalance(NamedTuple):
    """A group epoch, or a generation of a classic group, has begun."""

    group_id: str
    epoch: int
    why: str


class ChangedGroups:
    """Stores the number of the last change of each group."""

    def __init__(self, events: Events) -> None:
        self.events = events
        """Callers check `events.is_watched` before they call a method of this object."""
        self.number = 0
        """Number of the last change."""
        self._changes: dict[str, int] = {}
        self._forgotten = 0
        """Number of the last change that is not stored any more."""
        events.on_watched.append(self._on_watched)

    def _on_watched(self, is_watched: bool) -> None:
        if not is_watched:
            self._changes.clear()
            self._forgotten = self.number

    def note(self, group_id: str) -> None:
        """Note a change of the group."""
        self.number += 1
        self._changes.pop(group_id, None)  # the newest is the last entry
        self._changes[group_id] = self.number
        if len(self._changes) > CHANGED_MAX:
            self._forgotten = self._changes.pop(next(iter(self._changes)))

    def on_records(self, records: Sequence[Record]) -> None:
        """Note the groups of records that a shard has appended."""
        for record in records:
            self.note(record.key.group)
            if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is not None:
                self.events.note(Rebalance(record.key.group, record.value.epoch, ""))

    def on_rebalance(self, group_id: str, generation: int, why: str) -> None:
        """Note a rebalance of a classic group; `generation` is the last one."""
        self.events.note(Rebalance(group_id, generation + 1, why))

    def since(self, number: int) -> list[str] | None:
        """The groups that have changed after change `number`; None if that is unknown by now."""
        if number < self._forgotten:
            return None
        found: list[str] = []
        for group_id, at in reversed(self._changes.items()):
            if at <= number:
                break
            found.append(group_id)
        return found
