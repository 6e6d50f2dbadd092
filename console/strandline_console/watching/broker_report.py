"""The reports of one broker, as changes of the recording: itself, its replicas, its groups."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from strandline_console.recording.entities import (
    Entity,
    partition_key,
    replica_key,
)
from strandline_console.recording.figures import Growth
from strandline_console.recording.live import Live
from strandline_proto.v1 import watch_pb2
from strandline_proto.v1.common_pb2 import ReplicaCondition

RATE_MS: Final = 3_000
GHOSTS_MAX: Final = 16
DIRECTORY_STATES: Final = {
    watch_pb2.WATCHED_DIRECTORY_STATE_OK: "ok",
    watch_pb2.WATCHED_DIRECTORY_STATE_FULL: "full",
    watch_pb2.WATCHED_DIRECTORY_STATE_FAILED: "failed",
}
ROLES: Final = {
    watch_pb2.WATCHED_ROLE_LEADER: "leader",
    watch_pb2.WATCHED_ROLE_FOLLOWER: "follower",
    watch_pb2.WATCHED_ROLE_NONE: "none",
    watch_pb2.WATCHED_ROLE_OFFLINE: "offline",
}
WAITERS: Final = {
    watch_pb2.WAITER_KIND_PRODUCE: "produce",
    watch_pb2.WAITER_KIND_FLUSH: "flush",
    watch_pb2.WAITER_KIND_DELETE_RECORDS: "delete_records",
    watch_pb2.WAITER_KIND_FETCH: "fetch",
    watch_pb2.WAITER_KIND_GROUP: "group",
}
TRUNCATIONS: Final = {
    watch_pb2.TRUNCATION_REASON_DIVERGED: "diverged",
    watch_pb2.TRUNCATION_REASON_HIGH_WATERMARK: "high_watermark",
    watch_pb2.TRUNCATION_REASON_BEFORE_LEADER_START: "before_leader_start",
    watch_pb2.TRUNCATION_REASON_DAMAGE: "damage",
}
_TOTALS: Final = ("produced_records", "produced_bytes", "fetched_bytes", "replicated_bytes")
_RATES: Final = ("records_per_s", "bytes_in_per_s", "bytes_out_per_s", "replicated_bytes_per_s")
_UNKNOWN: Final = "unknown"
"""The word for a value of an enum that this build does not know."""


def condition_name(condition: int) -> str | None:
    """The name of a replica's condition in lower case; None for none."""
    if condition == ReplicaCondition.REPLICA_CONDITION_UNSPECIFIED:
        return None
    try:
        name = ReplicaCondition.Name(ReplicaCondition.ValueType(condition))
    except ValueError:
        return _UNKNOWN
    return name.removeprefix("REPLICA_CONDITION_").lower()


class BrokerReport:
    """Takes the frames of the broker `broker_id`."""

    def __init__(self, live: Live, growth: Growth, broker_id: int) -> None:
        self._live = live
        self._growth = growth
        self._broker_id = broker_id
        self._server = f"broker-{broker_id}"
        self._topic_ids: dict[str, bytes] = {}
        self._groups: set[str] = set()
        self._totals: deque[tuple[int, tuple[int | None, ...]]] = deque()

    def restart(self) -> tuple[set[str], set[str]]:
        """A keyframe begins: returns the keys of replicas and of groups that were known."""
        known = set(self._topic_ids), self._groups
        self._topic_ids, self._groups = {}, set()
        self._totals.clear()
        return known

    def drop(self, known: tuple[set[str], set[str]]) -> None:
        """The keyframe is complete: removes what it does not have."""
        replicas, groups = known
        for key in replicas - self._topic_ids.keys():
            self._live.remove("replicas", key)
        for group in groups - self._groups:
            self._drop_group(group)

    def _drop_group(self, group: str) -> None:
        """Another coordinator may have reported it by now: then it stays."""
        held = self._live.maps["groups"].get(group)
        if held is not None and held["coordinator"] == self._broker_id:
            self._live.remove("groups", group)

    def take(self, frame: watch_pb2.WatchResponse) -> None:
        """Apply the state of one frame."""
        if frame.HasField("broker"):
            self._take_broker(frame.broker, frame.time_ms)
        self._take_rates(frame.time_ms)
        for topic in frame.removed_replicas:
            self._remove_replicas(topic)
        for topic in frame.replicas:
            for replica in topic.replicas:
                self._take_replica(topic.topic, topic.topic_id, replica)
        for removed in frame.removed_groups:
            self._groups.discard(removed)
            self._drop_group(removed)
        for group in frame.groups:
            self._take_group(group)

    # The broker itself.

    def _take_broker(self, broker: watch_pb2.BrokerStatus, time_ms: int) -> None:
        directories = [
            {
                "path": each.path,
                "condition": DIRECTORY_STATES.get(each.state, _UNKNOWN),
                "reason": each.why or None,
            }
            for each in broker.directories
        ]
        self._report_disks(directories, time_ms)
        fields: Entity = {"lifecycle": broker.state, "directories": directories}
        for name in ("broker_epoch", "controller_epoch", "metadata_offset"):
            fields[name] = getattr(broker, name) if broker.HasField(name) else None
        self._live.set("servers", self._server, fields)
        totals = tuple(getattr(broker, name) if broker.HasField(name) else None for name in _TOTALS)
        self._totals.append((time_ms, totals))

    def _report_disks(self, directories: list[Entity], time_ms: int) -> None:
        server = self._live.maps["servers"].get(self._server)
        before = {} if server is None else {d["path"]: d for d in server["directories"] or ()}
        for directory in directories:
            condition = directory["condition"]
            if condition == before.get(directory["path"], {"condition": "ok"})["condition"]:
                continue
            reason = f": {directory['reason']}" if directory["reason"] else ""
            self._live.event(
                "disk",
                f"directory {directory['path']} of broker {self._broker_id} is {condition}{reason}",
                server=self._server,
                server_time_ms=time_ms,
                broker=self._broker_id,
                details={"path": directory["path"], "condition": condition},
            )

    def _take_rates(self, time_ms: int) -> None:
        """A rate is the difference of the totals of two frames."""
        if not self._totals:
            return
        if self._totals[-1][0] < time_ms:
            self._totals.append((time_ms, self._totals[-1][1]))
        while len(self._totals) > 2 and self._totals[1][0] <= time_ms - RATE_MS:
            self._totals.popleft()
        (first_ms, first), (last_ms, last) = self._totals[0], self._totals[-1]
        seconds = (last_ms - first_ms) / 1000
        if seconds < 0.5:
            return
        fields: Entity = {
            rate: None if a is None or b is None else round(max(0, b - a) / seconds, 1)
            for rate, a, b in zip(_RATES, first, last, strict=True)
        }
        self._live.set("servers", self._server, fields)

    # Replicas.

    def _remove_replicas(self, topic: watch_pb2.WatchedReplicas) -> None:
        for replica in topic.replicas:
            key = replica_key(topic.topic, replica.partition, self._broker_id)
            if self._topic_ids.get(key) == topic.topic_id:  # not a topic of the same name
                del self._topic_ids[key]
                self._live.remove("replicas", key)

    def _take_replica(self, topic: str, topic_id: bytes, replica: watch_pb2.WatchedReplica) -> None:
        key = replica_key(topic, replica.partition, self._broker_id)
        if self._topic_ids.setdefault(key, topic_id) != topic_id:  # a new topic of the same name
            self._topic_ids[key] = topic_id
            self._live.remove("replicas", key)
        known = self._live.maps["replicas"].get(key)
        fields: Entity = {}
        if known is None:
            fields = {"topic": topic, "partition": replica.partition, "broker": self._broker_id}
        if replica.HasField("offsets"):
            self._take_offsets(known, replica.offsets, fields)
        if replica.HasField("followers"):
            fields["fetchers"] = [_follower(each) for each in replica.followers.followers]
        if replica.HasField("waiters"):
            fields["waiters_count"] = replica.waiters.total
            fields["waiters"] = [_waiter(each) for each in replica.waiters.waiters]
        if replica.HasField("role"):
            fields.update(_role(replica.role))
            if fields["role"] != "leader":
                fields["fetchers"] = None
        if replica.HasField("epochs"):
            fields["epochs"] = _epochs(replica.epochs.entries)
            fields["epochs_older"] = replica.epochs.older
        if replica.HasField("care"):
            fields.update(_care(replica.care))
        self._live.set("replicas", key, fields)

    def _take_offsets(
        self, known: Entity | None, offsets: watch_pb2.ReplicaOffsets, fields: Entity
    ) -> None:
        fields["log_start"] = offsets.log_start
        fields["log_end"] = offsets.log_end
        fields["durable"] = offsets.durable
        fields["high_watermark"] = offsets.high_watermark
        fields["size_bytes"] = offsets.size_bytes
        if known is not None and known["role"] == "leader" and known["log_end"] is not None:
            self._growth.appended(offsets.log_end - known["log_end"])
            self._growth.committed(offsets.high_watermark - known["high_watermark"])

    def add_ghost(self, event: watch_pb2.TruncationEvent, *, time_ms: int, at_ms: int) -> None:
        """Keep the removed end of a replica's log beside the replica."""
        key = replica_key(event.topic, event.partition, self._broker_id)
        replica = self._live.maps["replicas"].get(key)
        if replica is None:
            return
        acknowledged = event.acknowledged if event.HasField("acknowledged") else None
        ghost: Entity = {
            "start": event.to_offset,
            "end": event.from_offset,
            "reason": TRUNCATIONS.get(event.reason, _UNKNOWN),
            "leader_epoch": event.leader_epoch if event.HasField("leader_epoch") else None,
            "high_watermark": event.high_watermark,
            "acknowledged": acknowledged,
            "epochs": _epochs(event.dropped_epochs),
            "at_ms": at_ms,
            "server_time_ms": time_ms,
        }
        ghosts = [*(replica["ghosts"] or ()), ghost]
        self._live.set("replicas", key, {"ghosts": ghosts[-GHOSTS_MAX:]})

    # Groups.

    def _take_group(self, group: watch_pb2.WatchedGroup) -> None:
        name = group.group_id
        is_new = name not in self._groups
        self._groups.add(name)
        fields: Entity = {
            "id": name,
            "coordinator": self._broker_id,
            "coordinator_epoch": group.coordinator_epoch,
        }
        if group.HasField("status"):
            status = group.status
            fields["state"] = status.state
            fields["kind"] = status.type
            fields["epoch"] = status.group_epoch
            fields["assignment_epoch"] = status.assignment_epoch
            fields["assignor"] = status.assignor or None
            fields["members"] = [_member(each) for each in status.members]
        held = self._live.maps["groups"].get(name)
        known = {} if held is None or is_new else held["offsets"] or {}
        if group.commits or group.removed_commits or is_new:
            offsets = dict(known)
            for removed in group.removed_commits:
                offsets.pop(partition_key(removed.topic, removed.partition), None)
            for commit in group.commits:
                offsets[partition_key(commit.topic, commit.partition)] = {
                    "offset": commit.offset,
                    "leader_epoch": commit.leader_epoch
                    if commit.HasField("leader_epoch")
                    else None,
                    "at_ms": commit.commit_time_ms if commit.HasField("commit_time_ms") else None,
                    "lag": None,
                }
            fields["offsets"] = offsets
        self._live.set("groups", name, fields)


def _follower(follower: watch_pb2.FollowerPosition) -> Entity:
    caught_up = follower.HasField("last_caught_up_ms")
    return {
        "broker": follower.broker_id,
        "fetch_offset": follower.fetch_offset if follower.HasField("fetch_offset") else None,
        "last_caught_up_ms": follower.last_caught_up_ms if caught_up else None,
        "in_maximal_isr": follower.in_maximal_isr,
    }


def _waiter(waiter: watch_pb2.Waiters) -> Entity:
    return {
        "kind": WAITERS.get(waiter.kind, _UNKNOWN),
        "offset": waiter.offset,
        "count": waiter.count,
    }


def _role(role: watch_pb2.ReplicaRole) -> Entity:
    is_told = role.HasField("leader_epoch")
    return {
        "role": ROLES.get(role.role),
        "leader_epoch": role.leader_epoch if is_told else None,
        "partition_epoch": role.partition_epoch if role.HasField("partition_epoch") else None,
        "leader": role.leader_id if role.HasField("leader_id") else None,
        "isr_committed": list(role.isr) if is_told else None,
        "isr_proposed": list(role.proposed_isr.ids) if role.HasField("proposed_isr") else None,
        "elr": list(role.elr) if is_told else None,
        "epoch_start": role.epoch_start if role.HasField("epoch_start") else None,
    }


def _care(care: watch_pb2.ReplicaCare) -> Entity:
    refused = care.HasField("refused_truncation_to")
    return {
        "condition": condition_name(care.condition),
        "condition_reason": care.why or None,
        "healing": care.healing,
        "refused_truncation_to": care.refused_truncation_to if refused else None,
    }


def _epochs(entries: Iterable[watch_pb2.EpochStart]) -> list[list[int]]:
    return [[each.epoch, each.start_offset] for each in entries]


def _member(member: watch_pb2.WatchedMember) -> Entity:
    return {
        "id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id if member.HasField("instance_id") else None,
        "epoch": member.member_epoch,
        "assigned": _assigned(member.assigned),
        "target": _assigned(member.target),
    }


def _assigned(topics: Iterable[watch_pb2.AssignedPartitions]) -> list[str]:
    return [
        partition_key(each.topic or each.topic_id.hex(), partition)
        for each in topics
        for partition in each.partitions
    ]
