"""The fetchers of one broker: one for each broker that leads partitions which it follows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.fetching.fetcher import Fetcher
from strandline_broker.hosts.replica.following import Following

if TYPE_CHECKING:
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.disks.flush_schedule import FlushSchedule
    from strandline_broker.hosts.fetching.copy_throttle import FollowerThrottle
    from strandline_broker.hosts.fetching.stream import FetchStreams
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.truncations import Truncations
    from strandline_proto.ids import BrokerId
    from strandline_runtime.runtime import Runtime


class Fetchers:
    """Owned by the replica manager."""

    def __init__(
        self,
        runtime: Runtime,
        config: DynamicConfig,
        streams: FetchStreams,
        *,
        flushes: FlushSchedule,
        truncations: Truncations,
        copies: FollowerThrottle,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._streams = streams
        self._flushes = flushes
        self._truncations = truncations
        self._copies = copies
        self._by_leader: dict[BrokerId, Fetcher] = {}
        self._group: asyncio.TaskGroup | None = None
        self._lasts: asyncio.Task[Any] | None = None
        """A task that ends with the group."""

    def run_in(self, group: asyncio.TaskGroup) -> None:
        """Create the fetchers' tasks in this group, which ends them. Later calls of `fetch` do
        nothing: a late role may be taken while the broker stops.
        """
        self._group = group
        self._lasts = group.create_task(asyncio.Event().wait(), name="fetchers")

    def fetch(self, partition: Partition) -> None:
        """Fetch the partition, which has begun to follow or whose log has changed under its
        fetcher.
        """
        if self._lasts is not None and self._lasts.done():
            return
        role = partition.role
        if isinstance(role, Following) and role.machine.may_fetch:
            self._fetcher(role.machine.leader).add(partition, role)

    def forget(self, key: Key) -> None:
        """Stop fetching the partition, until `fetch` is called again."""
        for fetcher in self._by_leader.values():
            fetcher.remove(key)

    def on_flushed(self, key: Key) -> None:
        for fetcher in self._by_leader.values():
            fetcher.on_flushed(key)

    def on_published(self) -> None:
        """Take over changes in the known brokers."""
        self._streams.on_published()

    def _fetcher(self, leader: BrokerId) -> Fetcher:
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            assert self._group is not None, "the replica manager does not run"
            fetcher = self._by_leader[leader] = Fetcher(
                self._runtime,
                self._config,
                leader,
                streams=self._streams,
                flushes=self._flushes,
                truncations=self._truncations,
                copies=self._copies,
            )
            self._group.create_task(fetcher.run(), name=f"fetcher-{leader}")
        return fetcher
