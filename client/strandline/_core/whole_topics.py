"""Topics that a consumer reads whole: partitions that are added later are read as well.

They are read from their first record: whoever reads the whole topic from now on has seen none of
what is in them. A topic that was created anew under the same name is another one (P-83).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._core.position import EARLIEST, Position
from strandline.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from strandline._core.cluster_view import ClusterView


class WholeTopics:
    def __init__(self) -> None:
        self._topics: dict[str, bytes] = {}
        """Their ids, by name."""

    def follow(self, positions: Iterable[Position]) -> None:
        """From now on the topics of these, and no others."""
        self._topics = {p.partition.topic: p.topic_id for p in positions}

    def added(
        self, view: ClusterView, known: Container[TopicPartition], policy: int | None
    ) -> dict[TopicPartition, Position]:
        """Where to begin in partitions that are not known yet."""
        found = {}
        for topic, topic_id in self._topics.items():
            now = view.by_id.get(topic_id)
            for number in () if now is None else sorted(now.partitions):
                tp = TopicPartition(topic, number)
                if tp not in known:
                    found[tp] = position = Position(tp, topic_id, policy)
                    position.reset(EARLIEST)
        return found
