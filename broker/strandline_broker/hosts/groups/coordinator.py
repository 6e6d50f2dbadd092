"""The groups' coordinator of one broker: the application of the shards of `__consumer_offsets`.

A broker imports the code of groups with its first shard.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups.group_ids import check_group_id
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_broker.hosts.coordination.registry import Shards
from strandline_broker.hosts.coordination.shard_code import ShardCode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.events import Events
    from strandline_broker.hosts.coordination.shard_context import LoadSettings
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.groups.group_context import GroupContext
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_runtime.runtime import Runtime


def _import_shards() -> None:
    import strandline_broker.hosts.groups.group_context
    import strandline_broker.hosts.groups.group_shard  # noqa: F401


CODE: Final = ShardCode(_import_shards)


def group_shards(
    runtime: Runtime,
    config: BrokerConfig,
    metadata: MetadataCache,
    is_sure: Callable[[], bool],
    events: Events,
) -> Shards[GroupShard]:
    """Returns the registry of the groups' shards. `is_sure`: no other broker leads because the
    controller took this one for dead.
    """
    coordinator = GroupCoordinator(config, metadata, is_sure, events)
    return Shards(runtime, config.node_id, metadata, coordinator)


class GroupCoordinator:
    """A `Coordinator` of the registry."""

    topic = CONSUMER_OFFSETS
    noun = "group"
    code = CODE

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        is_sure: Callable[[], bool],
        events: Events,
    ) -> None:
        self._events = events
        self._config = config
        self._metadata = metadata
        self._is_sure = is_sure
        self._context: GroupContext | None = None
        self.shards: Callable[[], list[GroupShard]] = list

    def check_name(self, name: str) -> None:
        """Raises InvalidGroupId."""
        check_group_id(name)

    def loads(self) -> LoadSettings:
        """Returns the configuration of a load of `__consumer_offsets`."""
        from strandline_broker.hosts.coordination.shard_context import LoadSettings

        config = self._config
        return LoadSettings(
            config.offsets_load_buffer_size,
            config.offsets_load_skip_records,
            "offsets.load.skip.records",
        )

    def new(self, shard: ShardHost[GroupShard]) -> GroupShard:
        """Returns the groups of a new shard."""
        from strandline_broker.hosts.groups.group_context import GroupContext
        from strandline_broker.hosts.groups.group_shard import GroupShard

        if self._context is None:
            self._context = GroupContext(
                shard.context,
                self._config,
                self._metadata,
                self._is_sure,
                self.shards,
                self._events,
            )
        return GroupShard(self._context, shard)

    def topics_changed(self) -> None:
        """Asks all groups to look at their topics."""
        for shard in self.shards():
            shard.topics.look()

    def tasks(self) -> Iterable[tuple[str, Coroutine[None, None, None]]]:
        """Returns the expiry of offsets, and the resolution of regular expressions."""
        return (
            ("group-expiry", self._expire()),
            ("group-regexes", self._refresh()),
        )

    async def _expire(self) -> None:
        """Removes offsets that are past their retention."""
        while True:
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            for shard in self.shards():
                await shard.expire()

    async def _refresh(self) -> None:
        """Resolves the regular expressions of subscriptions again."""
        while True:
            await asyncio.sleep(self._config.group_consumer_regex_refresh_interval_ms / 1000)
            for shard in self.shards():
                shard.topics.refresh()
