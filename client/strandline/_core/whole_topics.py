"""Topics that a consumer reads whole, including partitions that are added later.

An added partition is read from its first record: the consumer has seen none of its records. A topic
created again under the same name is another topic (P-83).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._core.position import EARLIEST, Position
from strandline.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from strandline._core.cluster_view import ClusterView


class WholeTopics:
    """The topics that one consumer reads whole."""

    def __init__(self) -> None:
        self._topics: dict[str, bytes] = {}
        """Their ids, by name."""

    def follow(self, positions: Iterable[Position]) -> None:
        """Follows the topics of these positions, and no others."""
        self._topics = {p.partition.topic: p.topic_id for p in positions}

    def added(
        self, view: ClusterView, known: Container[TopicPartition], policy: int | None
    ) -> dict[TopicPartition, Position]:
        """First positions in partitions that are not known yet."""
        found = {}
        for topic, topic_id in self._topics.items():
            now = view.by_id.get(topic_id)
            for number in () if now is None else sorted(now.partitions):
                tp = TopicPartition(topic, number)
                if tp not in known:
                    found[tp] = position = Position(tp, topic_id, policy)
                    position.reset(EARLIEST)
        return found
