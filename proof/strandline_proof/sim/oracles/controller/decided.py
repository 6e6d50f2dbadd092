"""The controller's decisions, folded here from the bytes of its log.

The log has JSON records in batches, and a snapshot where the log begins later. The controller's own
state is compared with this fold (I-30).

The minimum of in-sync replicas follows the rule of I-91: a topic's own value, or the cluster's that
was altered at run time, or the controller's default. It is never more than the replicas that the
partition has, or had before a reassignment that is under way.
"""

from __future__ import annotations

import json
from base64 import b64decode
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.disk.parts import Directory
from strandline_proof.sim.oracles.replica.log_view import LogView
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import CONTROLLER, DATA
from strandline_proto.batch import iter_headers, raw_records, read_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_proof.sim.oracles.replica.log_view import Entry

METADATA: Final = f"{DATA}/__cluster_metadata-0"
MINIMUM: Final = "min.insync.replicas"
SNAPSHOT: Final = ".checkpoint"
Key = tuple[bytes, int]
_OFFSET: Final = attrgetter("offset")


@dataclass(frozen=True, slots=True)
class Decided:
    """One partition after one record of the controller's log, at `offset`."""

    offset: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    original: tuple[int, ...] = ()
    minimum: int = 0
    """The minimum of in-sync replicas; 0 within a batch with later records about the partition."""

    @property
    def epochs(self) -> tuple[int, int]:
        return self.leader_epoch, self.partition_epoch

    def differs_from(self, other: Any) -> list[str]:
        """Names of the fields that differ in `other`, the controller's state."""
        return [name for name in COMPARED if getattr(self, name) != getattr(other, name)]


_LISTS: Final = ("replicas", "isr", "elr", "original")
COMPARED: Final = (*_LISTS, "leader", "leader_epoch", "partition_epoch")


@dataclass(slots=True)
class _Fold:
    """The fold up to and with `offset`."""

    offset: int = -1
    topics: dict[bytes, dict[str, str]] = field(default_factory=dict)
    """Each topic's own configuration."""
    defaults: dict[str, str] = field(default_factory=dict)
    altered: dict[str, str] = field(default_factory=dict)
    newest: dict[Key, Decided] = field(default_factory=dict)
    fenced: dict[int, int] = field(default_factory=dict)
    """The last offset of the decision that registered or fenced each broker last."""
    unfenced: dict[int, int] = field(default_factory=dict)
    """The last offset of the decision that unfenced each broker last."""
    stopping: dict[int, int] = field(default_factory=dict)
    """The last offset of the decision by which each stopping broker has begun to stop."""


class DecidedLog:
    """The fold, and every decided state of each partition."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self._view: LogView | None = None
        self._fold = _Fold()
        self._ever: dict[Key, dict[int, Decided]] = {}
        """Decided states by partition epoch."""

    def newest(self, key: Key) -> Decided | None:
        return self._fold.newest.get(key)

    def at(self, key: Key, partition_epoch: int) -> Decided | None:
        """The state at that partition epoch; None if there is no such decision."""
        return self._ever.get(key, {}).get(partition_epoch)

    def as_of(self, key: Key, offset: int) -> Decided | None:
        """The state after the record at `offset`."""
        ever = list(self._ever.get(key, {}).values())
        at = bisect_right(ever, offset, key=_OFFSET)
        return ever[at - 1] if at > 0 else None

    def keys(self) -> Iterable[Key]:
        """The existing partitions."""
        return self._fold.newest

    def minimum(self, key: Key) -> int:
        return self._fold.newest[key].minimum

    def fenced_at(self, number: int) -> int:
        """The last offset of the decision that registered or fenced the broker last."""
        return self._fold.fenced.get(number, -1)

    def unfenced_at(self, number: int) -> int:
        """The last offset of the decision that unfenced the broker last; -1 if unknown."""
        return self._fold.unfenced.get(number, -1)

    def stopping_at(self, number: int) -> int | None:
        """The last offset of the decision by which the broker has begun to stop; None if it is not
        stopping.
        """
        return self._fold.stopping.get(number)

    def start_again(self) -> None:
        """The store is another one: only its snapshot may have earlier decisions."""
        self._view, self._fold = None, _Fold()

    def read_to(self, last_offset: int) -> None:
        """Folds the controller's decisions, up to and with `last_offset`."""
        fold = self._fold
        if last_offset <= fold.offset:
            return
        if self._view is None:
            self._view = LogView(self._disk, METADATA)
        view = self._view
        known = len(view.entries)
        view.read_to(last_offset + 1, CONTROLLER)
        for number in range(known, len(view.entries)):
            entry = view.entries[number]
            if entry.base > fold.offset + 1:
                self._begin_from_snapshot(entry.base, last_offset)
            if entry.end > fold.offset + 1:
                self._on_batch(entry, _values(view.bytes_of(number)))
        if fold.offset < last_offset:
            self._begin_from_snapshot(last_offset + 1, last_offset)

    def _begin_from_snapshot(self, begins: int, last_offset: int) -> None:
        """Begins from a snapshot: the log lacks the records before `begins`."""
        known = (n for n in self._snapshots() if begins <= int(n[:20]) <= last_offset + 1)
        name = max(known, default=None)
        if name is None:
            raise Violation("I-7", f"no snapshot has what is before {begins} of the controller")
        node = self._disk.find(f"{METADATA}/{name}")
        assert isinstance(node, Inode)
        fold, data = self._fold, bytes(node.as_written())
        fold.offset = int(name[:20]) - 1
        for at, header in iter_headers(data):
            for value in _values(data[at : at + header.size]):
                self._on_entry(json.loads(value))
        self._resolve(list(fold.newest))

    def _snapshots(self) -> Iterator[str]:
        node = self._disk.find(METADATA)
        names = node.entries if isinstance(node, Directory) else {}
        return (name for name in names if name.endswith(SNAPSHOT))

    def _on_entry(self, entry: dict[str, Any]) -> None:
        """Folds one entry of a snapshot."""
        fold, fields = self._fold, entry.get("fields", {})
        match entry.get("type"):
            case "SnapshotState":
                fold.defaults = dict(fields.get("defaults", {}))
                fold.altered = dict(fields.get("dynamic_defaults", {}))
            case "SnapshotBroker":
                fold.fenced[fields["broker_id"]] = fields["fencing_offset"]
                if fields.get("shutdown_offset") is not None:
                    fold.stopping[fields["broker_id"]] = fields["shutdown_offset"]
            case "SnapshotTopic":
                fold.topics[b64decode(fields["topic_id"])] = dict(fields.get("configs", {}))
            case "SnapshotPartition":
                key = b64decode(fields["topic_id"]), fields["index"]
                self._put(key, _decided(fields, fields["changed_at"]))

    def _on_batch(self, entry: Entry, values: Iterable[bytes]) -> None:
        """Folds one decision. It becomes visible when it is whole."""
        fold, touched, configured = self._fold, list[Key](), False
        for offset, value in enumerate(values, entry.base):
            fold.offset, record = offset, json.loads(value)
            match record["type"]:
                case "Topic":
                    fold.topics[b64decode(record["topic_id"])] = {}
                case "RemoveTopic":
                    self._forget(b64decode(record["topic_id"]))
                case "Partition" | "PartitionChange":
                    touched.append(self._on_partition(record, offset))
                case "Config" | "BrokerConfig":
                    configured |= self._on_config(record)
                case _:
                    self._on_broker(record, entry.end - 1)
        self._resolve(list(fold.newest) if configured else touched)

    def _forget(self, topic_id: bytes) -> None:
        fold = self._fold
        fold.topics.pop(topic_id, None)
        fold.newest = {key: p for key, p in fold.newest.items() if key[0] != topic_id}

    def _on_partition(self, record: dict[str, Any], offset: int) -> Key:
        """I-30: a change raises the partition epoch by one, and the leader epoch if it names a
        leader.
        """
        key = b64decode(record["topic_id"]), record["partition"]
        if record["type"] == "Partition":
            self._put(key, _decided(record, offset))
            return key
        old, led = self._fold.newest[key], "leader" in record
        given: dict[str, Any] = {
            name: tuple(record[name]) for name in _LISTS if record.get(name) is not None
        }
        new = replace(
            old,
            **given,
            offset=offset,
            leader=record["leader"] if led else old.leader,
            leader_epoch=old.leader_epoch + led,
            partition_epoch=old.partition_epoch + 1,
            minimum=0,
        )
        self._put(key, new)
        return key

    def _put(self, key: Key, new: Decided) -> None:
        self._fold.newest[key] = self._ever.setdefault(key, {})[new.partition_epoch] = new

    def _on_config(self, record: dict[str, Any]) -> bool:
        """Returns whether minima may have changed."""
        fold = self._fold
        if record["type"] == "BrokerConfig":
            if record.get("broker_id") is not None:
                return False
            entries = fold.altered
        elif record.get("topic_id") is None:
            entries = fold.defaults
        else:
            entries = fold.topics[b64decode(record["topic_id"])]
        if record.get("value") is None:
            entries.pop(record["key"], None)
        else:
            entries[record["key"]] = record["value"]
        return bool(record["key"] == MINIMUM)

    def _on_broker(self, record: dict[str, Any], offset: int) -> None:
        """Folds a record about a broker. A decision is pushed and applied as a whole, and `offset`
        is its last one.
        """
        fold = self._fold
        match record["type"]:
            case "RegisterBroker":
                fold.fenced[record["broker_id"]] = offset
                fold.stopping.pop(record["broker_id"], None)
            case "BrokerRegistrationChange":
                if record.get("fenced") is not None:
                    of = fold.fenced if record["fenced"] else fold.unfenced
                    of[record["broker_id"]] = offset
                if record.get("in_controlled_shutdown"):
                    fold.stopping[record["broker_id"]] = offset

    def _resolve(self, keys: Iterable[Key]) -> None:
        """Computes the minima of these partitions from the present configuration (I-91)."""
        fold = self._fold
        for key in keys:
            known = fold.newest.get(key)
            if known is None:
                continue
            wider = {MINIMUM: "1"} | fold.defaults | fold.altered
            text = (wider | fold.topics[key[0]])[MINIMUM]
            least = min(int(text), len(known.original or known.replicas))
            if known.minimum not in (0, least):
                raise Violation(
                    "I-91",
                    f"partition {key[1]}: the minimum went from {known.minimum} to {least}, and"
                    f" the partition epoch is still {known.partition_epoch}",
                )
            self._put(key, replace(known, minimum=least))


def _values(batch: bytes) -> list[bytes]:
    return [bytes(r.value or b"") for r in raw_records(batch, read_header(batch))]


def _decided(fields: dict[str, Any], offset: int) -> Decided:
    return Decided(
        offset,
        tuple(fields["replicas"]),
        tuple(fields["isr"]),
        fields["leader"],
        fields["leader_epoch"],
        fields["partition_epoch"],
        tuple(fields.get("elr", ())),
        tuple(fields.get("original", ())),
    )
