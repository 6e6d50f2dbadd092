"""One watcher's view of the groups that a broker coordinates.

A look describes only the groups that have changed, and all of them when a shard came or went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.commands import DescribeGroup, GroupDescription
from strandline_broker.hosts.watch.content import GroupChange

if TYPE_CHECKING:
    from strandline_broker.core.groups.group_table import GroupTable
    from strandline_broker.core.groups.records.offset_records import OffsetCommitValue
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_broker.hosts.watch.draft import Draft, Pauses


class _Seen:
    __slots__ = ("commits", "description", "place")

    def __init__(self) -> None:
        self.place: tuple[int, int] | None = None
        self.description: GroupDescription | None = None
        self.commits: dict[tuple[str, int], OffsetCommitValue] = {}


class GroupView:
    def __init__(self, shards: Shards[GroupShard]) -> None:
        self._shards = shards
        self._seen: dict[str, _Seen] = {}
        self._active: tuple[Any, ...] = ()
        """The shards that served at the last look, with their leader epochs."""
        self._number = 0
        """Number of the last change that was looked at."""

    def forget(self) -> None:
        """Forget everything that the watcher has seen."""
        self._seen.clear()
        self._active = ()

    def look(self, draft: Draft) -> Pauses:
        """Add the groups that have changed."""
        active = [host for host in self._shards.hosts() if host.machine.state is ShardState.ACTIVE]
        key = tuple((host, host.machine.epoch) for host in active)
        changed: list[str] | None = []
        if key != self._active:
            self._active, changed = key, None
        elif active:
            changed = active[0].application.context.changed.since(self._number)
        if active:
            self._number = active[0].application.context.changed.number
        if changed is None:
            held = {group_id for host in active for group_id in _table(host).group_ids()}
            changed = sorted(held | self._seen.keys())
        for group_id in changed:
            holder = next((host for host in active if _table(host).is_known(group_id)), None)
            if holder is None:
                self._drop(draft, group_id)
            else:
                self._describe(draft, holder, group_id)
            yield

    def _drop(self, draft: Draft, group_id: str) -> None:
        if self._seen.pop(group_id, None) is not None:
            draft.content.removed_groups.append(group_id)
            draft.content.size += 1

    def _describe(self, draft: Draft, host: ShardHost[GroupShard], group_id: str) -> None:
        shard = host.application
        found = shard.groups.decide(DescribeGroup(group_id), shard.inputs()).answer
        assert isinstance(found, GroupDescription), found
        seen = self._seen.setdefault(group_id, _Seen())
        place = (host.partition.log.partition, host.machine.epoch)
        change = GroupChange(group_id, *place)
        if found != seen.description:
            change.status = seen.description = found
            change.topics = _names(found, shard.context.metadata.view)
        commits = {
            (topic, partition): value
            for topic, partition, value in shard.groups.table.offsets_of(group_id)
        }
        for at, value in commits.items():
            if seen.commits.get(at) != value:
                change.commits.append((*at, value))
        change.removed_commits = [at for at in seen.commits if at not in commits]
        seen.commits = commits
        if change.size > 1 or place != seen.place or change.status is not None:
            seen.place = place
            draft.content.groups.append(change)
            draft.content.size += change.size


def _table(host: ShardHost[GroupShard]) -> GroupTable:
    return host.application.groups.table


def _names(group: GroupDescription, metadata: MetadataView) -> dict[bytes, str]:
    ids = {
        topic_id
        for member in group.members
        for sets in (member.assignment, member.target)
        for topic_id in sets
    }
    known = {topic_id: metadata.topic(topic_id) for topic_id in ids}
    return {topic_id: topic.name for topic_id, topic in known.items() if topic is not None}
