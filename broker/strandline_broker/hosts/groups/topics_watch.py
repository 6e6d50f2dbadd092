"""Watch of a shard over topics: groups look at them whenever they may have changed.

A change of topics is reported once. If a group cannot write its consequences, for want of replicas
in sync, the watch asks all groups again until they can (I-141).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.commands import TopicsChanged
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.hosts.groups.group_shard import GroupShard

RETRY_S: Final = 1.0


class TopicsWatch:
    def __init__(self, host: GroupShard) -> None:
        self._host = host
        self._is_late = False
        """Groups are asked again in a while."""

    def look(self) -> None:
        """Asks all groups: the metadata has changed, or the shard begins to serve."""
        self._ask(self._host.groups.group_ids())

    def refresh(self) -> None:
        """Resolves the regular expressions of all subscriptions again."""
        self._ask(self._host.groups.with_regexes())

    def _ask(self, group_ids: Iterable[str]) -> None:
        host = self._host
        for group_id in group_ids:
            if host.machine.state is not ShardState.ACTIVE:
                return  # all are asked when it serves again
            try:
                host.run(TopicsChanged(group_id))
            except WireError:
                if not self._is_late:
                    self._is_late = True
                    host.context.shared.spawn(self._look_later())
                return

    async def _look_later(self) -> None:
        await asyncio.sleep(RETRY_S)
        self._is_late = False
        self.look()
