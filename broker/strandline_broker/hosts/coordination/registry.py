"""The shards of one coordinator topic on a broker: one for each partition that the broker leads.

The registry observes the roles of replicas, and passes them to the shards in order. A new
leadership begins when the broker works by the metadata that brought it: only then does a topic that
the metadata does not have count as deleted. A shard whose log is empty is made for the first call
of it, as most brokers of most clusters never get one. The first shard imports all that shards need,
off the event loop if it has a log to load.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from strandline_proto.ids import TopicId
from strandline_proto.java_hash import partition_for

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from strandline_broker.core.coordination.application import Application
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.coordination.shard_code import ShardCode
    from strandline_broker.hosts.coordination.shard_context import LoadSettings, ShardContext
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.coordination.waiting import CommitWaits
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_runtime.runtime import Runtime

Key = tuple[bytes, int]
App = TypeVar("App", bound="Application[Any]")


class Coordinator(Protocol[App]):
    """The applications of all shards of one topic: their factory and their common tasks."""

    topic: str
    noun: str
    """The kind of thing that a name stands for, in errors: "group"."""
    code: ShardCode
    shards: Callable[[], list[App]]
    """The applications that there are; the registry sets it."""

    def check_name(self, name: str) -> None:
        """Raises WireError for an invalid name."""

    def loads(self) -> LoadSettings:
        """Returns the configuration of a load."""

    def new(self, shard: ShardHost[App]) -> App:
        """Returns the application of a new shard."""

    def topics_changed(self) -> None:
        """Tells all applications that topics may have been added, removed or extended."""

    def tasks(self) -> Iterable[tuple[str, Coroutine[None, None, None]]]:
        """Returns the periodic work with its names; it begins with the first shard."""


class _Leadership(NamedTuple):
    partition: Partition
    epoch: int
    start: int


class Shards(Generic[App]):
    """A `RoleObserver`."""

    def __init__(
        self,
        runtime: Runtime,
        node_id: int,
        metadata: MetadataCache,
        coordinator: Coordinator[App],
    ) -> None:
        self._runtime = runtime
        self._node_id = node_id
        self._metadata = metadata
        self._coordinator = coordinator
        coordinator.shards = self.applications
        self._led: dict[Key, _Leadership] = {}
        """The partitions that this broker leads."""
        self._new: dict[Key, None] = {}
        """Led partitions that no published metadata has named yet."""
        self._importing: set[_Leadership] = set()
        """Leaderships that wait for the code of their shards."""
        self._hosts: dict[Key, ShardHost[App]] = {}
        self._context: ShardContext | None = None
        self._dirs: LogDirs | None = None
        self._group: asyncio.TaskGroup | None = None
        self._needed = asyncio.Event()
        self._topics_generation = 0

    # Roles

    def elected(self, partition: Partition, epoch: int, start: int) -> None:
        if partition.log.topic == self._coordinator.topic:
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

    def waits(self, partition: Partition, count: int) -> CommitWaits | None:
        """The callers that wait for a commit in this partition; None: it has no shard here."""
        host = self._hosts.get(partition.key)
        return None if host is None else host.waits(count)

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
            self._coordinator.topics_changed()

    def _enter(self, key: Key) -> None:
        """The metadata of that leadership is what the broker works by."""
        del self._new[key]
        led = self._led[key]
        if key not in self._hosts and led.start <= led.partition.log.log_start_offset:
            return
        if key in self._hosts or self._coordinator.code.is_loaded:
            self._begin(key)
        else:
            self._importing.add(led)
            self._spawn(self._begin_with_code(led))

    async def _begin_with_code(self, led: _Leadership) -> None:
        """The shard enters the leadership once its code is imported, unless that has ended."""
        assert self._dirs is not None, "run() comes first"
        try:
            await self._dirs.in_disk_pool(led.partition.log, self._coordinator.code.load)
        finally:
            self._importing.discard(led)
        key = led.partition.key
        if self._led.get(key) is led and key not in self._hosts:
            self._begin(key)

    # What handlers ask

    def of(self, name: str) -> App:
        """Returns the application of the shard that coordinates the group, or what else the topic
        is for. Raises CoordinatorNotAvailable, NotCoordinator or CoordinatorLoadInProgress.
        """
        self._coordinator.check_name(name)
        topic_name = self._coordinator.topic
        topic = self._metadata.view.topic_named(topic_name)
        if topic is None:
            raise CoordinatorNotAvailable(f"{topic_name} is not made yet; try again soon")
        index = partition_for(name, len(topic.partitions))
        key = (topic.topic_id, index)
        if key not in self._led:
            leader = self._metadata.view.current_leader(topic.topic_id, index)
            where = "no broker" if leader is None else f"broker {leader.broker_id}"
            raise NotCoordinator(
                f"broker {self._node_id} does not coordinate {self._coordinator.noun} {name!r}; the"
                f" leader of {topic_name}:{index} does, which is {where}"
            )
        return self.of_partition(key)

    def of_partition(self, key: Key) -> App:
        """Returns the application of that partition's shard. Raises NotCoordinator or
        CoordinatorLoadInProgress.
        """
        where = f"{self._coordinator.topic}:{key[1]}"
        if key not in self._led:
            raise NotCoordinator(f"broker {self._node_id} does not lead {where}")
        is_early = key in self._new or self._led[key] in self._importing
        if is_early or self._group is None:
            raise CoordinatorLoadInProgress(
                f"{where}: broker {self._node_id} leads it only now; try again"
            )
        return (self._hosts.get(key) or self._begin(key)).application

    def hosts(self) -> list[ShardHost[App]]:
        return list(self._hosts.values())

    def applications(self) -> list[App]:
        return [host.application for host in self._hosts.values()]

    # Background

    async def run(self, dirs: LogDirs) -> None:
        """Runs the periodic work of all shards until cancelled."""
        self._dirs = dirs
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._needed.wait()
                assert self._context is not None
                noun = self._coordinator.noun
                group.create_task(self._context.timers.run(), name=f"{noun}-timers")
                for name, work in self._coordinator.tasks():
                    group.create_task(work, name=name)
        finally:
            self._group = None

    def _begin(self, key: Key) -> ShardHost[App]:
        """The shard enters the leadership at hand."""
        from strandline_broker.hosts.coordination.shard_host import ShardHost

        led = self._led[key]
        host = self._hosts.get(key)
        if host is not None and host.partition is not led.partition:
            self.deleted(host.partition)  # the replica was removed, and is here again
            host = None
        if host is None:
            context = self._shared()
            host = self._hosts[key] = ShardHost(context, led.partition, self._coordinator.new)
        host.elected(led.epoch, led.start)
        return host

    def _shared(self) -> ShardContext:
        if self._context is None:
            from strandline_broker.hosts.coordination.shard_context import ShardContext

            assert self._dirs is not None, "run() comes first"
            self._context = ShardContext(
                self._runtime,
                self._node_id,
                self._dirs,
                self._coordinator.loads(),
                spawn=self._spawn,
            )
            self._needed.set()
        return self._context

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        if self._group is None:
            work.close()  # the broker is shutting down
        else:
            self._group.create_task(work)
