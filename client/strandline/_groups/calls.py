"""The calls of a consumer that concern its group: subscriptions and committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, overload

from strandline._consumer.base import ConsumerBase
from strandline._core.commit_state import CommitOffset
from strandline._core.membership import Subscription
from strandline._groups.group import at_of
from strandline._groups.rebalance_listener import check_listener
from strandline._net import arguments as given
from strandline.errors import ClientClosed, ConfigurationError
from strandline.group_types import ConsumerGroupMetadata, OffsetAndMetadata

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._groups.group import Group
    from strandline.types import TopicPartition

Partition: TypeAlias = "TopicPartition | tuple[str, int]"
ToCommit: TypeAlias = "Mapping[Partition, int | tuple[int, str] | OffsetAndMetadata]"

PATTERN_BYTES_MAX: Final = 4096
NO_GROUP: Final = -1


class GroupCalls(ConsumerBase):
    _wanted: tuple[Subscription, object] | None = None
    """What was subscribed to before the start."""

    def _grouped(self, what: str) -> Group:
        if self._options.group_id is None:
            raise ConfigurationError(f"{what} needs a group: give the consumer a group_id")
        self._started()
        assert self._group is not None
        return self._group

    # Subscription.

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: object = None,
    ) -> None:
        """Share these topics with the other members of the group, instead of those of before.

        `pattern` is a regular expression in RE2's syntax; brokers take every topic whose whole name
        matches it, of those to come too. `listener` (a ConsumerRebalanceListener) hears which
        partitions come and go. Topics that do not exist are taken up when they are created.
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

    async def unsubscribe(self) -> None:
        """Commit what was handed over before the last poll (with auto-commit), give up all
        partitions, and leave the group.
        """
        self._wanted = None
        if self._session is None:
            return
        self._started()
        group = self._group
        if group is not None:
            await group.unsubscribe(self._request_timeout_s)
        if group is None or not group.is_subscribed:  # again, while the group heard of the leave
            self._assigned.replace({})

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to; of a pattern, those of which something is assigned."""
        if self._group is None:
            wanted = None if self._wanted is None else self._wanted[0]
        else:
            wanted = self._group.membership.subscription
        if wanted is not None and wanted.pattern is not None:
            return frozenset(tp.topic for tp in self._assigned.keys)
        return frozenset(() if wanted is None else wanted.topics)

    async def wait_assigned(self, timeout_ms: float | None = None) -> frozenset[TopicPartition]:
        """Wait until the group has given this member something, and return that. A poll: listeners
        run in it. Raises OperationTimedOut, which says what stands in the way.
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
        """Who this consumer is in its group."""
        group = self._grouped("group_metadata")
        known = group.membership.is_member and group.membership.epoch > 0
        return ConsumerGroupMetadata(
            group.member.group_id,
            group.membership.epoch if known else NO_GROUP,
            group.member.member_id if known else "",
            group.member.instance_id,
        )

    # Offsets.

    async def commit(self, offsets: ToCommit | None = None) -> None:
        """Commit these offsets (of the records to read next), or the positions of all assigned
        partitions: everything that was handed over.

        Once it returns, the offsets survive what acknowledged records survive. Raises CommitFailed
        if the partitions have gone to others, and OperationTimedOut if nobody has said so within
        `request_timeout_ms`: they may be committed or not. A cancelled commit goes on.
        """
        await self.commit_async(offsets)

    def commit_async(self, offsets: ToCommit | None = None) -> asyncio.Future[None]:
        """Hand a commit over; the future that comes back is its end. Commits of a consumer are
        carried out one after the other.
        """
        group = self._grouped("commit")
        if offsets is None:
            chosen = {p.key: at_of(p) for p in self._assigned.of(()) if p.offset >= 0}
        else:
            chosen = dict(
                self._to_commit(tp, at) for tp, at in given.mapping("offsets", offsets).items()
            )
        return group.commits.submit(chosen, self._request_timeout_s)

    def _to_commit(
        self, partition: Partition, at: int | tuple[int, str] | OffsetAndMetadata
    ) -> tuple[PartitionKey, CommitOffset]:
        position = self._assigned.position(partition)
        match at:
            case int(offset) if not isinstance(at, bool):
                found = OffsetAndMetadata(offset)
            case (offset, str(metadata)):
                found = OffsetAndMetadata(offset, metadata)
            case OffsetAndMetadata():
                found = at
            case _:
                raise ConfigurationError(
                    f"offsets: {at!r} is neither an offset nor an OffsetAndMetadata"
                )
        name = f"offsets: that of {partition[0]}/{partition[1]}"
        given.whole(name, found.offset, 0, given.INT64_MAX)
        given.whole(f"{name}, leader_epoch", found.leader_epoch, -1)
        given.text(f"{name}, metadata", found.metadata)
        epoch = found.leader_epoch
        if epoch < 0:
            # Without one whoever goes on there would believe a deposed leader (P-82).
            epoch = position.epoch_before(found.offset)
        return position.key, CommitOffset(found.offset, epoch, found.metadata)

    @overload
    async def committed(self, partition: Partition) -> int | None: ...
    @overload
    async def committed(
        self, partition: Partition, *, metadata: Literal[True]
    ) -> OffsetAndMetadata | None: ...
    @overload
    async def committed(
        self, partition: Partition, *, metadata: bool
    ) -> int | OffsetAndMetadata | None: ...

    async def committed(
        self, partition: Partition, *, metadata: bool = False
    ) -> int | OffsetAndMetadata | None:
        """What the group has committed of a partition, whoever did; None if nothing."""
        group = self._grouped("committed")
        tp = given.one_partition("partition", partition)
        cluster = self._started().cluster
        view = await cluster.topic(tp.topic, self._request_timeout_s, tp.partition)
        key = (view.topic_id, tp.partition)
        found = (await group.commits.fetched([key], self._request_timeout_s))[key]
        if found.offset < 0:
            return None
        if not metadata:
            return found.offset
        return OffsetAndMetadata(found.offset, found.metadata, found.leader_epoch)
