"""The state of the cluster as it is now, and the frame that collects its changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from strandline_console.messages import EventKind, TimelineEvent
from strandline_console.recording.board import Board
from strandline_console.recording.entities import MAPS, Entity, Maps, new_entity, new_maps


@dataclass(slots=True)
class Changes:
    """The changes since the last frame."""

    changed: Maps = field(default_factory=dict)
    removed: dict[str, list[str]] = field(default_factory=dict)
    events: list[TimelineEvent] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.changed or self.removed or self.events)


class Live:
    """Takes changes of entities; `take` hands over those since it was last called.

    `on_change` is called at the first change after a frame was taken.
    """

    def __init__(self, now_ms: Callable[[], int], on_change: Callable[[], None]) -> None:
        self.maps = new_maps()
        self.frame = 0
        """Number of the last frame that was taken."""
        self.board = Board()
        self._now_ms = now_ms
        self._on_change = on_change
        self._changes = Changes()
        self.events = 0
        """Number of the last event."""
        assert set(self.maps) == set(MAPS)

    @property
    def pending_events(self) -> list[TimelineEvent]:
        """Events of the frame that is being collected."""
        return list(self._changes.events)

    def set(self, map_name: str, key: str, fields: Entity) -> None:
        """Set fields of an entity, which is new or known. Equal values are no change."""
        of_map = self.maps[map_name]
        known = of_map.get(key)
        if known is None:
            of_map[key] = new_entity(map_name, fields)
            self._note(map_name)[key] = dict(of_map[key])
            if map_name == "replicas":
                self.board.add_replica(key)
            elif map_name == "partitions":
                self.board.set_partition(key, of_map[key])
            return
        patch = {name: value for name, value in fields.items() if known[name] != value}
        if not patch:
            return
        known.update(patch)
        if map_name == "partitions":
            self.board.set_partition(key, known)
        noted = self._note(map_name)
        earlier = noted.get(key)
        if earlier is None:
            noted[key] = patch
        else:
            earlier.update(patch)

    def _note(self, map_name: str) -> dict[str, Entity]:
        if self._changes.is_empty:
            self._on_change()
        return self._changes.changed.setdefault(map_name, {})

    def remove(self, map_name: str, key: str) -> None:
        """Remove an entity; one that is not there is no change."""
        if self.maps[map_name].pop(key, None) is None:
            return
        noted = self._note(map_name)
        noted.pop(key, None)
        if not noted:
            del self._changes.changed[map_name]
        self._changes.removed.setdefault(map_name, []).append(key)
        if map_name == "replicas":
            self.board.remove_replica(key)
        elif map_name == "partitions":
            self.board.remove_partition(key)

    def event(self, kind: EventKind, sentence: str, **others: Any) -> TimelineEvent:
        """Add an event to the frame that is being collected."""
        if self._changes.is_empty:
            self._on_change()
        self.events += 1
        event = TimelineEvent(
            id=self.events,
            frame=self.frame + 1,
            at_ms=self._now_ms(),
            kind=kind,
            sentence=sentence,
            **others,
        )
        self._changes.events.append(event)
        return event

    def take(self) -> Changes:
        """The changes since the last call, as the next frame."""
        taken, self._changes = self._changes, Changes()
        self.frame += 1
        for event in taken.events:
            event.frame = self.frame
        return taken
