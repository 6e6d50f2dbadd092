"""The events of the controller's decisions, for its watchers.

While there is a watcher, the partitions of the last decision are kept beside the state: an event
names the former leader and ISR. Both share the partitions' values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.controller.news import Former, news_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.controller.log.records import AnyRecord
    from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
    from strandline_broker.hosts.common.events import Events
    from strandline_proto.ids import BrokerId, TopicId


class CommitNews:
    def __init__(self, events: Events, state: ControllerState) -> None:
        self.events = events
        self.fenced_for: dict[BrokerId, str] = {}
        """The reasons of fences that are under way."""
        self._state = state
        self._names: dict[TopicId, str] = {}
        self._partitions: dict[tuple[TopicId, int], PartitionRegistration] = {}
        events.on_watched.append(self._on_watched)

    def _on_watched(self, is_watched: bool) -> None:
        self._names.clear()
        self._partitions.clear()
        if is_watched:
            self._names.update((t.topic_id, t.name) for t in self._state.topics.values())
            self._partitions.update(((p.topic_id, p.index), p) for p in self._state.partitions())

    def on_commit(self, records: Sequence[AnyRecord]) -> None:
        """Note the events of a decision that was just replayed; there is a watcher."""
        former = Former(self._names, self._partitions)
        for news in news_of(records, former, self._state, self.fenced_for):
            self.events.note(news)
        for record in records:
            self._follow(record)

    def _follow(self, record: AnyRecord) -> None:
        topic_id = getattr(record, "topic_id", None)
        if topic_id is None:
            return
        topic = self._state.topics.get(topic_id)
        if topic is None:
            self._names.pop(topic_id, None)
            for key in [key for key in self._partitions if key[0] == topic_id]:
                del self._partitions[key]
            return
        self._names[topic_id] = topic.name
        index = getattr(record, "partition", None)
        if index is not None:
            self._partitions[topic_id, index] = topic.partitions[index]
