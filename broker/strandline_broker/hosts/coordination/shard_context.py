"""What all shards of one broker share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.assignors.range import RangeAssignor
from strandline_broker.core.groups.assignors.uniform import UniformAssignor
from strandline_broker.core.groups.commands import Inputs
from strandline_broker.core.groups.consumer.regular_expressions import Re2Matcher
from strandline_broker.core.groups.groups import Groups
from strandline_broker.hosts.coordination.timers import Timers
from strandline_broker.hosts.groups.assigning import Assigning
from strandline_broker.hosts.groups.group_metrics import GroupMetrics
from strandline_broker.hosts.groups.group_settings import group_settings
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_runtime.runtime import Runtime


class ShardContext:
    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        metadata: MetadataCache,
        dirs: LogDirs,
        *,
        shards: Callable[[], Collection[ShardHost]],
        spawn: Callable[[Coroutine[None, None, None]], None],
        is_sure: Callable[[], bool],
    ) -> None:
        """`shards`: those that there are at the time of asking. `spawn` starts a task that ends
        with the broker. `is_sure`: nobody else leads because this broker was taken for dead.
        """
        self.runtime = runtime
        self.config = config
        self.me = config.node_id
        self.metadata = metadata
        self.dirs = dirs
        self.spawn = spawn
        self.is_sure = is_sure
        self.settings = group_settings(config)
        self.timeout_s = config.offsets_commit_timeout_ms / 1000
        self.session_s = config.group_consumer_session_timeout_ms / 1000
        self.timers = Timers(self._now_ms)
        self.assignors = {a.name: a for a in (UniformAssignor(), RangeAssignor())}
        self.assigning = Assigning(
            runtime.clock, lambda: runtime.serial_executor("assignor"), spawn
        )
        self.metrics = GroupMetrics(runtime.metrics, shards)

    def new_groups(self) -> Groups:
        known = [self.assignors[name] for name in self.settings.consumer_assignors]
        return Groups(self.settings, known, Re2Matcher())

    def inputs(self) -> Inputs:
        """As of now; the metadata is of one moment (P-8)."""
        view = self.metadata.view
        return Inputs(
            now_ms=self._now_ms(),
            wall_ms=self.wall_ms(),
            metadata=view,
            members=self.timers.sessions,
            random=self.runtime.random_id(),
        )

    def wall_ms(self) -> int:
        return wall_ms(self.runtime.clock)

    def _now_ms(self) -> int:
        return monotonic_ms(self.runtime.clock)
