"""One watcher's view of a broker's replicas.

A look reads the replicas as they are, some hundred at a time, and compares each part with the one
that the watcher has seen. Nothing of a replica refers to a watcher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from strandline_broker.hosts.replica.leading import Leading
from strandline_broker.hosts.watch.content import (
    CarePart,
    Offsets,
    ReplicaChange,
    ReplicaName,
    RoleKind,
    RolePart,
)
from strandline_broker.hosts.watch.replica_parts import (
    NO_WAITERS,
    WAITERS_MAX,
    care_part,
    epochs_part,
    followers_key,
    followers_part,
    role_key,
    role_part,
    waiters_part,
)
from strandline_proto.ids import TopicId
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.replication.leader import Leader
    from strandline_broker.core.replication.replica_condition import ReplicaCondition
    from strandline_broker.hosts.coordination.waiting import CommitWaits
    from strandline_broker.hosts.member.replica_logs import Refusal
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.watch.draft import Draft, Pauses
    from strandline_broker.hosts.watch.selection import Selection
    from strandline_runtime.runtime import Clock

CommitWaitsOf: TypeAlias = "Callable[[Partition, int], CommitWaits | None]"
SLICE: Final = 250
"""Replicas that are looked at without a pause."""
_OFFLINE: Final = RolePart(
    RoleKind.OFFLINE, None, None, None, (), (), None, (), None, recovering=False, epoch_start=None
)


class _Seen:
    """The keys of the parts of one replica that the watcher has seen."""

    __slots__ = ("care", "epochs", "followers", "offsets", "roles", "topic", "waiters")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.offsets: Any = None
        self.roles: Any = None
        self.epochs: Any = None
        self.followers: Any = ()
        self.waiters: Any = None
        self.care: Any = None


class ReplicaView:
    def __init__(
        self,
        clock: Clock,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        selection: Selection,
        commit_waits: CommitWaitsOf,
    ) -> None:
        """`commit_waits` returns the callers that wait for a commit of a group coordinator."""
        self._clock = clock
        self._commit_waits = commit_waits
        self._replicas = replicas
        self._metadata = metadata
        self._selection = selection
        self._seen: dict[tuple[bytes, int], _Seen] = {}

    def forget(self) -> None:
        """Forget everything that the watcher has seen."""
        self._seen.clear()

    def look(self, draft: Draft) -> Pauses:
        """Add the parts that have changed."""
        replicas, selection = self._replicas, self._selection
        conditions = replicas.offline_replicas()
        found = 0
        for number, (key, partition) in enumerate(list(replicas.partitions.items()), 1):
            log = partition.log
            if selection.is_all or selection.has(log.topic, log.partition):
                found += 1
                self._look_at(draft, key, partition, conditions.get(key) if conditions else None)
            if number % SLICE == 0:
                yield
        for key, refusal in list(replicas.logs.refused.items()):
            found += self._look_at_refused(draft, key, refusal)
        if found != len(self._seen):
            self._drop_removed(draft)
        yield

    def _look_at(
        self,
        draft: Draft,
        key: tuple[bytes, int],
        partition: Partition,
        condition: ReplicaCondition | None,
    ) -> None:
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen(partition.log.topic)
        at, role = partition.log.state, partition.role
        leader: Leader | None = None
        followers: Any = ()
        waiters = NO_WAITERS
        if isinstance(role, Leading):
            leader = role.machine
            followers = followers_key(leader)
            waiters = waiters_part(partition, role, self._commit_waits(partition, WAITERS_MAX))
        offsets = (at.start, at.end, at.durable_end, partition.high_watermark, at.size_bytes)
        roles = role_key(partition, leader)
        epochs = partition.log.leader_epochs.table
        care = (condition, partition.healing, partition.refused)
        has_other_role = roles != seen.roles
        if (
            offsets == seen.offsets
            and not has_other_role
            and epochs is seen.epochs
            and followers == seen.followers
            and waiters == seen.waiters
            and care == seen.care
        ):
            return
        change = ReplicaChange(partition.log.topic, key[0], key[1])
        if offsets != seen.offsets:
            change.offsets = seen.offsets = Offsets(*offsets)
        if epochs is not seen.epochs:
            seen.epochs = epochs
            change.epochs = epochs_part(epochs)
        if has_other_role or followers != seen.followers:
            seen.followers = followers
            change.followers = followers_part(leader, self._wall_less_monotonic_ms())
        if has_other_role:
            seen.roles = roles
            change.standing = role_part(partition, leader, roles)
        if waiters != seen.waiters:
            change.waiters = seen.waiters = waiters
        if care != seen.care:
            seen.care = care
            why_full = None if condition is None else self._replicas.dirs.why_full(partition.log)
            change.care = care_part(partition, condition, why_full)
        draft.content.replicas.append(change)
        draft.content.size += 1

    def _look_at_refused(self, draft: Draft, key: tuple[bytes, int], refusal: Refusal) -> bool:
        """A replica whose log is not open has a role and a condition, and no other part."""
        topic_id, index = key
        known = self._metadata.view.topic(TopicId(topic_id))
        topic = "" if known is None else known.name
        if key in self._replicas.partitions or not self._selection.has(topic, index):
            return False
        seen = self._seen.get(key)
        if seen is None or seen.care != refusal:
            seen = self._seen[key] = _Seen(topic)
            seen.care = refusal
            change = ReplicaChange(topic, topic_id, index, standing=_OFFLINE)
            change.care = CarePart(refusal.condition, refusal.why, False, None)
            draft.content.replicas.append(change)
            draft.content.size += 1
        return True

    def _drop_removed(self, draft: Draft) -> None:
        replicas = self._replicas
        for key in [
            k for k in self._seen if k not in replicas.partitions and k not in replicas.logs.refused
        ]:
            seen = self._seen.pop(key)
            draft.content.removed_replicas.append(ReplicaName(seen.topic, *key))
            draft.content.size += 1

    def _wall_less_monotonic_ms(self) -> int:
        return wall_ms(self._clock) - monotonic_ms(self._clock)
