"""A consumer's calls about its subscription, and its membership of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline._core.membership import JOIN_EPOCH, Subscription
from strandline._groups.rebalance_listener import check_listener
from strandline._net import arguments as given
from strandline._reading.reading import Reading
from strandline.errors import ClientClosed, ConfigurationError
from strandline.group_types import ConsumerGroupMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline.types import TopicPartition

PATTERN_BYTES_MAX: Final = 4096
NO_GROUP: Final = -1


class Subscriptions(Reading):
    """The calls about the subscription."""

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: object = None,
    ) -> None:
        """Subscribes to topics or to a pattern, in place of the earlier subscription.

        `pattern` is a regular expression in RE2's syntax; it selects every topic whose whole name
        matches, also topics created later. `listener` (a ConsumerRebalanceListener) is called when
        partitions are assigned, revoked or lost. A missing topic joins the subscription when it is
        created.
        """
        if self._options.group_id is None:
            raise ConfigurationError(
                "subscribe needs a group: give the consumer a group_id, or use assign([...])"
            )
        names = given.several("topics", topics, str)
        if (not names) == (pattern is None):
            raise ConfigurationError(
                "subscribe takes topics or a pattern, one of them; unsubscribe() leaves the group"
            )
        if "" in names:
            raise ConfigurationError("topics: '' is not the name of a topic")
        if pattern is not None:
            size = len(given.text("pattern", pattern).encode(errors="replace"))
            given.within("pattern's size in bytes", size, 1, PATTERN_BYTES_MAX)
        check_listener(listener)
        subscription = Subscription(tuple(sorted(set(names))), pattern)
        if self._session is None:
            self._wanted = subscription, listener
            return
        group = self._grouped("subscribe")
        if self._is_stopping:
            raise ClientClosed("the consumer is being closed")
        if self._assigned.keys and not group.is_subscribed:
            raise ConfigurationError(
                "partitions are assigned by assign([...]); call unsubscribe() before subscribe"
            )
        cluster = self._started().cluster
        cluster.follow(*subscription.topics)
        cluster.request_refresh()
        group.subscribe(subscription, listener)

    async def unsubscribe(self, *, timeout_ms: float | None = None) -> None:
        """Gives up all partitions and leaves the group.

        With auto-commit, the consumer first commits the records delivered before the last poll.
        `unsubscribe` takes at most `timeout_ms` (None: `request_timeout_ms`), even if every broker
        is dead; the group then removes the member when its session ends.
        """
        timeout_s = self._within(timeout_ms)
        self._wanted = None
        if self._session is None:
            return
        self._started()
        group = self._group
        if group is not None:
            await group.unsubscribe(timeout_s)
        if group is None or not group.is_subscribed:  # no new subscription meanwhile
            self._assigned.replace({})

    def subscription(self) -> frozenset[str]:
        """Returns the subscribed topics; for a pattern, the topics with an assigned partition."""
        if self._group is None:
            wanted = None if self._wanted is None else self._wanted[0]
        else:
            wanted = self._group.membership.subscription
        if wanted is not None and wanted.pattern is not None:
            return frozenset(tp.topic for tp in self._assigned.keys)
        return frozenset(() if wanted is None else wanted.topics)

    async def wait_assigned(self, timeout_ms: float | None = None) -> frozenset[TopicPartition]:
        """Polls until the group has assigned partitions to this member, and returns them.

        The rebalance listener runs in it. Raises OperationTimedOut, whose message names the
        obstacle.
        """
        group = self._grouped("wait_assigned")
        if timeout_ms is not None:
            given.milliseconds("timeout_ms", timeout_ms, least=0)
        group.begin_poll()
        try:
            await group.wait_assigned(None if timeout_ms is None else timeout_ms / 1000)
        finally:
            group.end_poll()
        return frozenset(self._assigned.keys)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns this consumer's identity in its group.

        A subscriber that is out of its group has generation 0: no coordinator takes its offsets.
        """
        group = self._grouped("group_metadata")
        known = group.membership.is_member and group.membership.epoch > 0
        if not known and group.is_subscribed:
            known, epoch = True, JOIN_EPOCH
        else:
            epoch = group.membership.epoch
        return ConsumerGroupMetadata(
            group.member.group_id,
            epoch if known else NO_GROUP,
            group.member.member_id if known else "",
            group.member.instance_id,
        )
