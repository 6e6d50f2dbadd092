"""The parts that all shards of groups share on a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.assignors.range import RangeAssignor
from strandline_broker.core.groups.assignors.uniform import UniformAssignor
from strandline_broker.core.groups.commands import Inputs
from strandline_broker.core.groups.consumer.regular_expressions import Re2Matcher
from strandline_broker.core.groups.effects import SessionTimer
from strandline_broker.core.groups.groups import Groups
from strandline_broker.hosts.groups.assigning import Assigning
from strandline_broker.hosts.groups.changed_groups import ChangedGroups
from strandline_broker.hosts.groups.group_metrics import GroupMetrics
from strandline_broker.hosts.groups.group_settings import group_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.events import Events
    from strandline_broker.hosts.coordination.shard_context import ShardContext
    from strandline_broker.hosts.groups.group_metrics import Counted


class GroupContext:
    def __init__(
        self,
        shared: ShardContext,
        config: BrokerConfig,
        metadata: MetadataCache,
        is_sure: Callable[[], bool],
        shards: Callable[[], Collection[Counted]],
        events: Events,
    ) -> None:
        """`shards`: the present ones. `is_sure`: no other broker leads because the controller took
        this one for dead.
        """
        self.shared = shared
        self.metadata = metadata
        self.is_sure = is_sure
        self.settings = group_settings(config)
        self.timeout_s = config.offsets_commit_timeout_ms / 1000
        self.session_s = config.group_consumer_session_timeout_ms / 1000
        self.timers = shared.timers
        self.assignors = {a.name: a for a in (UniformAssignor(), RangeAssignor())}
        runtime = shared.runtime
        self.assigning = Assigning(
            runtime.clock, lambda: runtime.serial_executor("assignor"), shared.spawn
        )
        self.metrics = GroupMetrics(runtime.metrics, shards)
        self.events = events
        self.changed = ChangedGroups(events)

    def new_groups(self) -> Groups:
        known = [self.assignors[name] for name in self.settings.consumer_assignors]
        return Groups(self.settings, known, Re2Matcher())

    def inputs(self, *, batch_bytes_max: int) -> Inputs:
        """Returns the inputs of a decision now; the metadata is of one moment (P-8)."""
        view = self.metadata.view
        return Inputs(
            now_ms=self.shared.now_ms(),
            wall_ms=self.shared.wall_ms(),
            metadata=view,
            members=self.timers.count(SessionTimer),  # each has one (I-137)
            random=self.shared.runtime.random_id(),
            batch_bytes_max=batch_bytes_max,
        )
