"""A consumer's calls about the partitions that its program assigns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline._core.position import LATEST, Position
from strandline._net import arguments as given
from strandline._reading.reading import Reading
from strandline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline._core.cluster_view import Changes, PartitionKey
    from strandline._core.whole_topics import WholeTopics
    from strandline.types import TopicPartition


class Assignments(Reading):
    """The calls about the assignment."""

    _whole: WholeTopics
    """The topics that are read whole, and grow."""

    async def assign(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Assigns these partitions in place of the earlier ones; common ones keep their position.

        With a `group_id`, new partitions begin at the group's committed offsets, and commits go to
        the group. The consumer is not a member: other consumers may read the same partitions.
        Raises UnknownTopicOrPartition if one does not exist, OperationTimedOut after `timeout_ms`
        (None: `request_timeout_ms`); the earlier assignment stays then.
        """
        fetcher = self._started()
        self._require_unsubscribed()
        now = asyncio.get_running_loop().time
        end_s = now() + self._within(timeout_ms)
        wanted: dict[PartitionKey, TopicPartition] = {}
        for tp in given.several_partitions("partitions", partitions):
            topic, number = tp
            view = await fetcher.cluster.topic(topic, max(0.0, end_s - now()), number)
            wanted[view.topic_id, number] = tp
        find = self._assigned.find  # another call may have changed the assignment meanwhile
        begun: dict[PartitionKey, Position] = {}
        while new := {k: tp for k, tp in wanted.items() if k not in begun and find(k) is None}:
            left_s = max(0.0, end_s - now())
            begun |= {position.key: position for position in await self._begin(new, left_s)}
        self._require_unsubscribed()
        self._whole.follow(())
        self._assigned.replace({key: find(key) or begun[key] for key in wanted})

    def _require_unsubscribed(self) -> None:
        if self._group is not None and self._group.is_subscribed:
            raise ConfigurationError(
                "the group assigns partitions to this consumer; call unsubscribe() before assign"
            )

    async def _begin(
        self, new: dict[PartitionKey, TopicPartition], timeout_s: float
    ) -> list[Position]:
        """Returns first positions for partitions that the caller assigns."""
        if self._group is not None and new:
            found = await self._group.commits.fetched(list(new), timeout_s)
            positions = [self._assigned.position_at(tp, k[0], found[k]) for k, tp in new.items()]
            self._group.on_moved(positions)
            return positions
        positions = [Position(tp, key[0], self._options.policy) for key, tp in new.items()]
        for position in positions:
            position.reset(LATEST if position.policy is None else position.policy)
        return positions

    def _on_metadata(self, _: Changes) -> None:
        """Adds new partitions of topics that are read whole."""
        if (fetcher := self._assigned.fetcher) is None:
            return
        known, policy = self._assigned.keys, self._options.policy
        if added := self._whole.added(fetcher.cluster.view, known, policy):
            self._assigned.add(added.values())

    def assignment(self) -> frozenset[TopicPartition]:
        """Returns the assigned partitions."""
        return frozenset(self._assigned.keys)
