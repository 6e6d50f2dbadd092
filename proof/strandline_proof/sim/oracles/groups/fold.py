"""The fold of a log of `__consumer_offsets`, decision by decision, with the offline decoder alone.

A batch is a decision. The state after it follows from the state before it and from the batch. So
logs which share an entry share everything up to it (I-4) and are folded once. No value here ever
changes: each decision has a `Fold` before and one after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline_broker.offline.group_records import BrokenRecord, GroupRecord, decode
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.batch import end_marker, raw_records, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from strandline_proof.sim.oracles.replica.log_view import Identity, LogView

ABSENT_EPOCH: Final = -2
"""Epoch of a static member that has left for a while."""
STABLE: Final = 0
UNREVOKED: Final = 1
"""State of a member that must revoke partitions before it may reach the assignment's epoch."""
NO_EPOCH: Final = 0

Place = tuple[str, int]
"""A topic's id, as text, and the number of one of its partitions."""
Entity = str | tuple[str, str]
"""A group, or one of its members."""


@dataclass(frozen=True, slots=True)
class Member:
    instance_id: str | None = None
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str = ""
    rack: str = ""
    rebalance_ms: int = 0

    @property
    def wishes(self) -> tuple[frozenset[str], str, str, str]:
        """The member's properties that concern the whole group (I-128)."""
        return self.topics, self.regex, self.assignor, self.rack


@dataclass(frozen=True, slots=True)
class Current:
    """A member's partitions, each with the epoch in which it was assigned."""

    epoch: int = 0
    previous: int = -1
    state: int = STABLE
    assigned: Mapping[Place, int] = field(default_factory=dict)
    pending: Mapping[Place, int] = field(default_factory=dict)

    @property
    def held(self) -> frozenset[Place]:
        return frozenset(self.assigned) | frozenset(self.pending)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the consumer protocol."""

    epoch: int = NO_EPOCH
    target_epoch: int = NO_EPOCH
    target_at_ms: int = 0
    members: Mapping[str, Member] = field(default_factory=dict)
    targets: Mapping[str, frozenset[Place]] = field(default_factory=dict)
    currents: Mapping[str, Current] = field(default_factory=dict)
    regexes: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def topics_of(self, member: Member) -> frozenset[str]:
        return member.topics | self.regexes.get(member.regex, frozenset())

    def holder(self, place: Place) -> str | None:
        return next((m for m, c in sorted(self.currents.items()) if place in c.held), None)

    def names(self, instance_id: str | None) -> str | None:
        """The member that holds the instance id."""
        if instance_id is None:
            return None
        found = (m for m, member in self.members.items() if member.instance_id == instance_id)
        return next(found, None)


EMPTY: Final = Group()


class OffsetKey(NamedTuple):
    group: str
    topic: str
    partition: int


class Offset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    topic_id: str | None

    @property
    def said(self) -> tuple[int, int, str]:
        """The values that a committer sends and a reader receives."""
        return self.offset, self.leader_epoch, self.metadata


class Classic(NamedTuple):
    """The record of a classic group."""

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[tuple[str, str | None, str], ...]
    """Each member's id, instance and assignment, the latter in hexadecimal digits."""


class Staged(NamedTuple):
    """An offset of an open transaction."""

    at: int
    """Base offset of its batch."""
    value: Offset


@dataclass(frozen=True, slots=True)
class Fold:
    groups: Mapping[str, Group] = field(default_factory=dict)
    offsets: Mapping[OffsetKey, Offset] = field(default_factory=dict)
    offsets_at: Mapping[OffsetKey, int] = field(default_factory=dict)
    """The base offset of the batch that holds each committed offset."""
    staged: Mapping[int, Mapping[OffsetKey, Staged]] = field(default_factory=dict)
    """Offsets of open transactions, by producer."""
    classic: Mapping[str, Classic] = field(default_factory=dict)
    written: Mapping[Entity, int] = field(default_factory=dict)
    """The end of the last batch about each group or member."""

    def group(self, group_id: str) -> Group:
        return self.groups.get(group_id, EMPTY)

    def end_of(self, entity: Entity) -> int:
        return self.written.get(entity, 0)


NOTHING: Final = Fold()


class Decision(NamedTuple):
    """One batch of the log: its offsets, its leader epoch, the coordinator's clock."""

    base: int
    end: int
    epoch: int
    at_ms: int
    records: tuple[GroupRecord, ...]
    producer_id: int = -1
    """The producer of a transactional batch or an end marker; -1: of neither."""
    is_commit: bool | None = None
    """The outcome that an end marker brings; None: the batch is none."""

    @property
    def identity(self) -> Identity:
        return self.base, self.epoch

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.key["group"] for r in self.records if "group" in r.key))


class Step(NamedTuple):
    """A decision with the state before it and the state after it."""

    decision: Decision
    before: Fold
    after: Fold


def read_decision(batch: bytes) -> Decision:
    header = read_header(batch)
    records = () if header.record_count == 0 or header.is_control else raw_records(batch, header)
    try:
        decoded = tuple(decode(bytes(r.key), _bytes(r.value)) for r in records if r.key is not None)
    except BrokenRecord as error:
        raise Violation("I-102", f"the batch at offset {header.base_offset}: {error}") from error
    marker = end_marker(batch, 0, header)
    return Decision(
        header.base_offset,
        header.next_offset,
        header.leader_epoch,
        header.base_timestamp,
        decoded,
        header.producer_id if header.is_transactional else -1,
        None if marker is None else marker.is_commit,
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def apply(fold: Fold, decision: Decision) -> Fold:
    groups, written, classic = dict(fold.groups), dict(fold.written), dict(fold.classic)
    offsets = _Offsets(fold)
    written.update(dict.fromkeys(offsets.end(decision), decision.end))
    for record in decision.records:
        key, value = record.key, record.value
        if "group" not in key:
            continue
        written[key["group"]] = decision.end
        if "member_id" in key:
            written[key["group"], key["member_id"]] = decision.end
        if record.kind == "offset_commit":
            offsets.take(decision, OffsetKey(key["group"], key["topic"], key["partition"]), value)
        elif record.kind == "group_metadata":
            classic.pop(key["group"], None)
            if value is not None and "hex" not in value:
                classic[key["group"]] = _classic(value)
        elif record.kind in _APPLY:
            after = _APPLY[record.kind](groups.get(key["group"], EMPTY), key, value)
            groups[key["group"]] = after
            if after == EMPTY:
                del groups[key["group"]]
    return Fold(groups, offsets.committed, offsets.at, offsets.staged, classic, written)


class _Offsets:
    """The offsets of a fold under change."""

    def __init__(self, fold: Fold) -> None:
        self.committed = dict(fold.offsets)
        self.at = dict(fold.offsets_at)
        self.staged = {producer: dict(staged) for producer, staged in fold.staged.items()}

    def take(self, decision: Decision, key: OffsetKey, value: dict[str, Any] | None) -> None:
        if value is None:
            self.committed.pop(key, None)
            self.at.pop(key, None)
            for staged in self.staged.values():
                staged.pop(key, None)
            self.staged = {producer: staged for producer, staged in self.staged.items() if staged}
        elif "hex" not in value:
            offset = Offset(
                value["offset"],
                value.get("leader_epoch", -1),
                value["metadata"],
                value["commit_timestamp"],
                value.get("topic_id"),
            )
            if decision.producer_id < 0:
                self.committed[key], self.at[key] = offset, decision.base
            else:
                staged = self.staged.setdefault(decision.producer_id, {})
                staged[key] = Staged(decision.base, offset)

    def end(self, decision: Decision) -> set[str]:
        """Ends the transaction of a marker; returns the groups that it concerns (I-146)."""
        if decision.is_commit is None:
            return set()
        ended = self.staged.pop(decision.producer_id, {})
        for key, staged in ended.items():
            if decision.is_commit and self.at.get(key, -1) < staged.at:
                self.committed[key], self.at[key] = staged.value, staged.at
        return {key.group for key in ended}


def _classic(value: dict[str, Any]) -> Classic:
    return Classic(
        value["generation"],
        value["protocol_type"],
        value["protocol"],
        value["leader"],
        tuple(
            (member["member_id"], member["group_instance_id"], member["assignment"])
            for member in value["members"]
        ),
    )


def _group_epoch(group: Group, key: dict[str, Any], value: dict[str, Any] | None) -> Group:
    return replace(group, epoch=NO_EPOCH if value is None else value["epoch"])


def _target_epoch(group: Group, key: dict[str, Any], value: dict[str, Any] | None) -> Group:
    if value is None:
        return replace(group, target_epoch=NO_EPOCH, target_at_ms=0)
    at_ms = value.get("assignment_timestamp", 0)
    return replace(group, target_epoch=value["assignment_epoch"], target_at_ms=at_ms)


def _member(group: Group, key: dict[str, Any], value: dict[str, Any] | None) -> Group:
    member = value and Member(
        value["instance_id"],
        frozenset(value["subscribed_topic_names"]),
        value["subscribed_topic_regex"] or "",
        value["server_assignor"] or "",
        value["rack_id"] or "",
        value["rebalance_timeout"],
    )
    return replace(group, members=_with(group.members, key["member_id"], member or None))


def _target(group: Group, key: dict[str, Any], value: dict[str, Any] | None) -> Group:
    target = None if value is None else frozenset(_places(value["topics"]))
    return replace(group, targets=_with(group.targets, key["member_id"], target))


def _current(group: Group, key: dict[str, Any], value: dict[str, Any] | None) -> Group:
    current: Current | None = None
    if value is not None:
        epoch = value["member_epoch"]
        current = Current(
            epoch,
            value["previous_member_epoch"],
            value["state"],
            _held(value["assigned"], epoch),
            _held(value["pending_revocation"], epoch),
        )
    return replace(group, currents=_with(group.currents, key["member_id"], current))


def _regex(group: Group, key: dict[str, Any], value: dict[str, Any] | None) -> Group:
    topics = None if value is None else frozenset(value["topics"])
    return replace(group, regexes=_with(group.regexes, key["regex"], topics))


_APPLY: Final[dict[str, Callable[[Group, dict[str, Any], dict[str, Any] | None], Group]]] = {
    "group_epoch": _group_epoch,
    "target_epoch": _target_epoch,
    "member": _member,
    "target_assignment": _target,
    "current_assignment": _current,
    "regular_expression": _regex,
}


def _with(table: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    after = dict(table)
    if value is None:
        after.pop(name, None)
    else:
        after[name] = value
    return after


def _places(topics: Iterable[dict[str, Any]]) -> Iterable[Place]:
    return ((topic["topic_id"], p) for topic in topics for p in topic["partitions"])


def _held(topics: Iterable[dict[str, Any]], member_epoch: int) -> dict[Place, int]:
    held: dict[Place, int] = {}
    for topic in topics:
        epochs = topic.get("assignment_epochs") or [member_epoch] * len(topic["partitions"])
        for partition, epoch in zip(topic["partitions"], epochs, strict=True):
            held[topic["topic_id"], partition] = epoch
    return held


class GroupLog:
    """Every decision that was ever in a log of one partition of `__consumer_offsets`."""

    def __init__(self, on_step: Callable[[Step], None]) -> None:
        """A log. `on_step` is called with each decision once, after those before it."""
        self._steps: dict[Identity, Step] = {}
        self._on_step = on_step

    def step_of(self, view: LogView, number: int) -> Step | None:
        """The decision of the last of the first `number` entries; None if there is none, or if the
        log's beginning is not known.
        """
        missing = []
        at = number - 1
        while at >= 0 and view.entries[at].identity not in self._steps:
            missing.append(at)
            at -= 1
        if at < 0 and missing and view.entries[0].base > 0:
            return None
        step = self._steps[view.entries[at].identity] if at >= 0 else None
        for at in reversed(missing):
            decision = read_decision(view.bytes_of(at))
            before = NOTHING if step is None else step.after
            step = Step(decision, before, apply(before, decision))
            self._steps[view.entries[at].identity] = step
            self._on_step(step)
        return step
