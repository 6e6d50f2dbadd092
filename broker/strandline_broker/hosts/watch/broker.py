"""A broker as the source of watch frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.common.cuts import Cut
from strandline_broker.hosts.member.lifecycle import BrokerState
from strandline_broker.hosts.watch.content import (
    BrokerPart,
    Directory,
    DirectoryState,
    Identity,
    ServerKind,
    Traffic,
)
from strandline_broker.hosts.watch.groups import GroupView
from strandline_broker.hosts.watch.replicas import ReplicaView
from strandline_proto.ids import NO_BROKER_EPOCH
from strandline_runtime.milliseconds import wall_ms

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.events import Events
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_broker.hosts.member.lifecycle import BrokerLifecycle
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.watch.draft import Draft, Pauses
    from strandline_broker.hosts.watch.selection import Selection
    from strandline_runtime.runtime import Clock

_STATES: Final = {
    BrokerState.STARTING: "starting",
    BrokerState.FENCED: "fenced",
    BrokerState.UNFENCED: "running",
    BrokerState.SHUTTING_DOWN: "stopping",
}
TRAFFIC_S: Final = 1.0
"""Time between two reports of the totals, which are sums over all topics."""


class BrokerSource:
    def __init__(
        self,
        clock: Clock,
        lifecycle: BrokerLifecycle,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        shards: Shards[GroupShard],
    ) -> None:
        self.clock = clock
        self.events: Events = replicas.events
        self._lifecycle = lifecycle
        self._metadata = metadata
        self._replicas = replicas
        self._shards = shards

    def identity(self) -> Identity:
        """The process, as of now: a broker learns its cluster id when it registers."""
        return Identity(
            self._metadata.cluster_id,
            ServerKind.BROKER,
            self._replicas.me,
            self._lifecycle.incarnation_id,
        )

    def view(self, selection: Selection) -> BrokerView:
        """A view that has seen nothing."""
        return BrokerView(
            self,
            selection,
            ReplicaView(self.clock, self._replicas, self._metadata, selection, self._shards.waits),
            GroupView(self._shards) if selection.groups else None,
        )

    def traffic(self) -> Traffic:
        """The totals since the start of the process."""
        totals = self._replicas.counters.totals()
        return Traffic(
            totals.bytes_in, totals.messages_in, totals.bytes_out, totals.replication_bytes_in
        )

    def status(self, traffic: Traffic) -> BrokerPart:
        """The broker itself, without its replicas."""
        lifecycle, view = self._lifecycle, self._metadata.view
        answer_s = lifecycle.last_answer_s
        age_ms = None if answer_s is None else int((self.clock.monotonic() - answer_s) * 1000)
        return BrokerPart(
            state="recovering" if lifecycle.is_recovering else _STATES[lifecycle.state],
            broker_epoch=(
                None if lifecycle.broker_epoch == NO_BROKER_EPOCH else lifecycle.broker_epoch
            ),
            last_heartbeat_ms=None if age_ms is None else wall_ms(self.clock) - age_ms,
            controller_epoch=None if not self._metadata.has_snapshot else view.controller_epoch,
            metadata_offset=None if not self._metadata.has_snapshot else view.metadata_offset,
            directories=self._directories(),
            traffic=traffic,
            watchers=self.events.watchers,
        )

    def status_key(self) -> tuple[Any, ...]:
        """Everything that the status is made of."""
        lifecycle, dirs = self._lifecycle, self._replicas.dirs
        return (
            lifecycle.state,
            lifecycle.is_recovering,
            lifecycle.broker_epoch,
            lifecycle.last_answer_s,
            self._metadata.view.metadata_offset,
            self.events.watchers,
            [each.failure for each in dirs.all],
            dirs.directories.lacks_descriptors,
            *dirs.directories.full,
        )

    def _directories(self) -> tuple[Directory, ...]:
        dirs = self._replicas.dirs
        known = dirs.directories
        found = [
            Directory(path, DirectoryState.FAILED, str(why)) for path, why in known.failed.items()
        ]
        for each in dirs.all:
            if each.path in known.failed:
                continue
            if each.failure is not None:
                found.append(Directory(each.path, DirectoryState.FAILED, each.failure))
            elif known.lacks_descriptors:
                why = "no file descriptors are left"
                found.append(Directory(each.path, DirectoryState.FULL, why))
            elif each.path in known.full:
                found.append(Directory(each.path, DirectoryState.FULL, "its disk is full"))
            else:
                found.append(Directory(each.path, DirectoryState.OK, ""))
        return tuple(sorted(found))


class BrokerView:
    """A `View` of a broker."""

    def __init__(
        self,
        source: BrokerSource,
        selection: Selection,
        replicas: ReplicaView,
        groups: GroupView | None,
    ) -> None:
        self._source = source
        self._selection = selection
        self._replicas = replicas
        self._groups = groups
        self._seen: tuple[Any, ...] | None = None
        self._traffic: Traffic | None = None
        self._counted_s = 0.0

    def forget(self) -> None:
        """Forget everything that the watcher has seen."""
        self._seen = None
        self._replicas.forget()
        if self._groups is not None:
            self._groups.forget()

    def look(self, draft: Draft) -> Pauses:
        """Add what has changed."""
        now_s = self._source.clock.monotonic()
        if self._traffic is None or now_s - self._counted_s >= TRAFFIC_S:
            self._counted_s, self._traffic = now_s, self._source.traffic()
        key = (self._traffic, self._source.status_key())
        if key != self._seen:
            self._seen = key
            draft.content.broker = self._source.status(self._traffic)
            draft.content.size += 1
        yield from self._replicas.look(draft)
        if self._groups is not None:
            yield from self._groups.look(draft)

    def has(self, what: Any) -> bool:
        """True if the watcher has selected the event."""
        if isinstance(what, Cut):
            return self._selection.has(what.topic, what.partition)
        return self._groups is not None
