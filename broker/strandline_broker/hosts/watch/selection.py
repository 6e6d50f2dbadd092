"""The topics and partitions that a watcher has selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Selection:
    def __init__(self, topics: Mapping[str, frozenset[int]], *, groups: bool = True) -> None:
        """`topics`: the partitions of each topic by name, none for all of it; no topics: all."""
        self._topics = topics
        self.is_all = not topics
        self.groups = groups

    def has_topic(self, topic: str) -> bool:
        """True if the topic, or a part of it, is selected."""
        return self.is_all or topic in self._topics

    def has(self, topic: str, partition: int) -> bool:
        """True if the partition is selected."""
        if self.is_all:
            return True
        partitions = self._topics.get(topic)
        return partitions is not None and (not partitions or partition in partitions)


ALL = Selection({})
