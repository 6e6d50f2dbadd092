"""What every replica of one broker shares: who we are, the clock, the data directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from strandline_broker.hosts.copy_throttle import FollowerThrottle, LeaderThrottle
from strandline_broker.hosts.eligibility import Eligibility
from strandline_broker.hosts.log_upkeep import LogUpkeep
from strandline_broker.hosts.losses import Losses
from strandline_broker.hosts.replaced import end_replaced
from strandline_broker.hosts.ticks import Ticks
from strandline_broker.hosts.truncations import Truncations
from strandline_proto.ids import BrokerId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from strandline_broker.config import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.push_envelope import Endpoint
    from strandline_broker.core.topic_config import TopicConfig
    from strandline_broker.hosts.log_dirs import LogDirs
    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.role_observer import RoleObserver
    from strandline_broker.hosts.to_controller import ToController
    from strandline_broker.storage.log import Log
    from strandline_runtime.runtime import Runtime

T = TypeVar("T")

RESOLVED_MAX: Final = 1024
"""Different configurations of topics that are remembered: most topics share a few."""


class ReplicaContext:
    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        metadata: MetadataCache,
        controller: ToController,
        dirs: LogDirs,
        *,
        partitions: Callable[[], Collection[Partition]],
        observers: Sequence[RoleObserver],
    ) -> None:
        """`partitions`: all that this broker holds at the time of asking."""
        self.runtime = runtime
        self._static = config
        self.config = config
        """With what was altered at run time. Read a dynamic key from here each time it is used; a
        kept copy would not hear of a change.
        """
        self.metadata = metadata
        self._resolved: dict[tuple[tuple[str, str], ...], TopicConfig] = {}
        self.me = BrokerId(config.node_id)
        self.controller = controller
        self.observers = observers
        self.dirs = dirs
        self.flusher = dirs
        self.losses = Losses(runtime, controller)
        self.truncations = Truncations(runtime, controller)
        self.copies_out = LeaderThrottle(self)
        self.copies_in = FollowerThrottle(self)
        self.eligibility = Eligibility(metadata)
        self.ticks = Ticks(self.now_ms, lag_ms_max=config.replica_lag_time_max_ms)
        self.truncate_to_high_watermark = config.replica_truncation == "high-watermark"
        self.flush_always = config.flush_policy == "always"
        self.upkeep = LogUpkeep(self, partitions)

    def alter(self, entries: Mapping[str, str]) -> None:
        """Take over what the controller says was altered at run time, whole."""
        self.config = self._static.altered(entries)
        self._resolved.clear()

    def resolve(self, entries: Mapping[str, str]) -> TopicConfig:
        """A topic's configuration: its own entries over this broker's defaults as they are now."""
        key = tuple(entries.items())
        known = self._resolved.get(key)
        if known is None:
            if len(self._resolved) >= RESOLVED_MAX:
                self._resolved.clear()
            known = self._resolved[key] = self.config.topic_defaults.with_entries(entries)
        return known

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as records have them: for their timestamps and ages."""
        return int(self.runtime.clock.time() * 1000)

    def now_ms(self) -> int:
        """Milliseconds that never go back: for lags and time limits."""
        return int(self.runtime.clock.monotonic() * 1000)

    def leader_endpoint(self, leader: BrokerId) -> Endpoint | None:
        """Where other brokers reach `leader`."""
        return self.metadata.view.endpoint(leader, self.config.inter_broker_listener_name)

    def end_replaced(self, why: str) -> NoReturn:
        """A newer process runs under our id: this one ends."""
        end_replaced(self.runtime, self.me, why)

    async def in_disk_pool(self, work: Callable[[], T], log: Log) -> T:
        """Run blocking work on the disk of `log` to its end, even if the caller is cancelled."""
        return await self.dirs.in_disk_pool(log, work)
