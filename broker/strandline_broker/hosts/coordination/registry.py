"""The shards of one broker: one for each partition of `__consumer_offsets` that it leads.

The registry observes the roles of replicas and brings what it hears to the shards, in order. It
waits with a new leadership until the metadata that brought it is what the broker works by: only
then does a topic that the metadata does not have count as deleted. A shard whose log is empty is
made by the first who asks it for something, as most brokers of most clusters are never asked; all
that shards need is imported by the first of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.core.groups.group_ids import check_group_id
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from strandline_proto.ids import TopicId
from strandline_proto.java_hash import partition_for

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.coordination.shard_context import ShardContext
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_runtime.runtime import Runtime

Key = tuple[bytes, int]


class _Leadership(NamedTuple):
    partition: Partition
    epoch: int
    start: int


class Shards:
    """A `RoleObserver`."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        metadata: MetadataCache,
        is_sure: Callable[[], bool],
    ) -> None:
        """`is_sure`: nobody else leads because this broker was taken for dead."""
        self._runtime = runtime
        self._config = config
        self._metadata = metadata
        self._is_sure = is_sure
        self._led: dict[Key, _Leadership] = {}
        """What this broker leads."""
        self._new: dict[Key, None] = {}
        """Of these, what no published metadata has named yet."""
        self._hosts: dict[Key, ShardHost] = {}
        self._context: ShardContext | None = None
        self._dirs: LogDirs | None = None
        self._group: asyncio.TaskGroup | None = None
        self._needed = asyncio.Event()
        self._topics_generation = 0

    # Roles

    def elected(self, partition: Partition, epoch: int, start: int) -> None:
        if partition.log.topic == CONSUMER_OFFSETS:
            self._led[partition.key] = _Leadership(partition, epoch, start)
            self._new[partition.key] = None
            topic_id, index = TopicId(partition.key[0]), partition.key[1]
            known = self._metadata.view.current_leader(topic_id, index)
            if known is not None and known.leader_epoch >= epoch:
                self._enter(partition.key)  # it has come to its role after the others

    def committed(self, partition: Partition, end: int) -> None:
        host = self._hosts.get(partition.key)
        if host is not None:
            host.committed(end)

    def resigned(self, partition: Partition) -> None:
        if self._led.pop(partition.key, None) is not None:
            self._new.pop(partition.key, None)
            host = self._hosts.get(partition.key)
            if host is not None:
                host.resigned(partition.leader_epoch)

    def deleted(self, partition: Partition) -> None:
        host = self._hosts.pop(partition.key, None)
        if host is not None:
            host.deleted()

    def published(self) -> None:
        """The metadata cache has a new view, which the roles were changed for."""
        for key in list(self._new):
            self._enter(key)
        generation = self._metadata.view.topics_generation
        if generation != self._topics_generation:
            self._topics_generation = generation
            for host in self.hosts():
                host.topics.look()

    def _enter(self, key: Key) -> None:
        """The metadata of that leadership is what the broker works by."""
        del self._new[key]
        led = self._led[key]
        if key in self._hosts or led.start > led.partition.log.log_start_offset:
            self._begin(key)

    # What handlers ask

    def of_group(self, group_id: str) -> ShardHost:
        """Raises CoordinatorNotAvailable, NotCoordinator or CoordinatorLoadInProgress."""
        check_group_id(group_id)
        topic = self._metadata.view.topic_named(CONSUMER_OFFSETS)
        if topic is None:
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS} is not made yet; try again soon")
        index = partition_for(group_id, len(topic.partitions))
        key = (topic.topic_id, index)
        led = self._led.get(key)
        if led is None:
            leader = self._metadata.view.current_leader(topic.topic_id, index)
            where = "nobody" if leader is None else f"broker {leader.broker_id}"
            raise NotCoordinator(
                f"broker {self._config.node_id} does not coordinate group {group_id!r}; the leader"
                f" of {CONSUMER_OFFSETS}-{index} does, which is {where}"
            )
        if key in self._new or self._group is None:
            raise CoordinatorLoadInProgress(
                f"{CONSUMER_OFFSETS}-{index}: broker {self._config.node_id} leads it only now; try"
                " again"
            )
        return self._hosts.get(key) or self._begin(key)

    def hosts(self) -> list[ShardHost]:
        return list(self._hosts.values())

    # Background

    async def run(self, dirs: LogDirs) -> None:
        """What shards do by themselves, until cancelled."""
        self._dirs = dirs
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._needed.wait()
                assert self._context is not None
                group.create_task(self._context.timers.run(), name="group-timers")
                group.create_task(self._expire(), name="group-expiry")
                group.create_task(self._refresh(), name="group-regexes")
        finally:
            self._group = None

    def _begin(self, key: Key) -> ShardHost:
        """The shard enters the leadership at hand."""
        from strandline_broker.hosts.coordination.shard_host import ShardHost

        led = self._led[key]
        host = self._hosts.get(key)
        if host is not None and host.partition is not led.partition:
            self.deleted(host.partition)  # the replica was removed, and is here again
            host = None
        if host is None:
            host = self._hosts[key] = ShardHost(self._shared(), led.partition)
        host.elected(led.epoch, led.start)
        return host

    def _shared(self) -> ShardContext:
        if self._context is None:
            from strandline_broker.hosts.coordination.shard_context import ShardContext

            assert self._dirs is not None, "run() comes first"
            self._context = ShardContext(
                self._runtime,
                self._config,
                self._metadata,
                self._dirs,
                shards=self.hosts,
                spawn=self._spawn,
                is_sure=self._is_sure,
            )
            self._needed.set()
        return self._context

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        if self._group is None:
            work.close()  # the broker is shutting down
        else:
            self._group.create_task(work)

    async def _expire(self) -> None:
        """Forget offsets that are past their retention."""
        while True:
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            for host in self.hosts():
                await host.expire()

    async def _refresh(self) -> None:
        """Resolve the regular expressions of subscriptions again."""
        while True:
            await asyncio.sleep(self._config.group_consumer_regex_refresh_interval_ms / 1000)
            for host in self.hosts():
                host.topics.refresh()
