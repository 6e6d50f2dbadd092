"""A shard's groups without a broker, in whose log transactions and their markers stand too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strandline_broker.core.coordination.decision import Producer
from strandline_broker.core.groups.commands import (
    OffsetsCommitted,
    PartitionCommit,
    TopicRef,
    TxnOffsetCommit,
)
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey
from strandline_proto.ids import NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId
from support.groups_rig import GroupsRig, durable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.coordination.decision import Record
    from strandline_broker.core.groups.groups import Groups
    from strandline_proto.errors import WireError


@dataclass(frozen=True)
class Entry:
    """A record or, without one, an end marker."""

    offset: int
    record: Record | None
    producer_id: int = NO_PRODUCER_ID
    is_commit: bool = False


@dataclass
class TransactionalRig(GroupsRig):
    entries: list[Entry] = field(default_factory=list)
    end: int = 0

    def take(self, records: Iterable[Record], producer: Producer | None = None) -> None:
        for record in records:
            producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
            self._write(Entry(self.end, record, producer_id))

    def txn_commit(
        self,
        offset: int,
        *,
        producer_id: int = 1,
        topic: str = "t",
        partition: int = 0,
        **more: Any,
    ) -> WireError | None:
        """What became of the one partition; raises what refuses all."""
        wish = PartitionCommit(TopicRef(name=topic), partition, offset)
        producer = Producer(ProducerId(producer_id), ProducerEpoch(0))
        fields_: dict[str, Any] = {"group_id": "g", "partitions": (wish,), "producer": producer}
        answer = self.ask(TxnOffsetCommit(**(fields_ | more)))
        assert isinstance(answer, OffsetsCommitted)
        return answer.errors[0]

    def mark(self, producer_id: int = 1, *, is_commit: bool = True) -> None:
        """The marker of the producer's transaction is written."""
        self._write(Entry(self.end, None, producer_id, is_commit))

    def load(self, log: Iterable[Entry] | None = None) -> Groups:  # type: ignore[override]
        groups = self.new_groups()
        for entry in self.entries if log is None else log:
            replay(groups, entry)
        return groups

    def _write(self, entry: Entry) -> None:
        replay(self.groups, entry)
        self.entries.append(entry)
        self.end += 1


def replay(groups: Groups, entry: Entry) -> None:
    offset, producer_id = Offset(entry.offset), ProducerId(entry.producer_id)
    if entry.record is None:
        groups.replay_marker(producer_id, is_commit=entry.is_commit)
    elif producer_id == NO_PRODUCER_ID:
        groups.replay(offset, entry.record)
    else:
        groups.replay_transactional(offset, entry.record, producer_id)


def durable_with_pending(groups: Groups) -> dict[str, Any]:
    """All that the log of a shard tells."""
    pending = groups.table.pending
    staged = {group_id: tuple(pending.of_group(group_id)) for group_id in sorted(pending.groups)}
    return {**durable(groups), "pending": staged}


def cleaned(entries: list[Entry], upto: int) -> list[Entry]:
    """What the cleaner leaves of the entries below `upto`, where each transaction is decided
    by now: markers, and of each key the highest record that no transaction has taken back.
    """
    below = [entry for entry in entries if entry.offset < upto]
    outcome: dict[int, list[tuple[int, bool]]] = {}
    for entry in entries:
        if entry.record is None:
            outcome.setdefault(entry.producer_id, []).append((entry.offset, entry.is_commit))

    def counts(entry: Entry) -> bool:
        if entry.producer_id == NO_PRODUCER_ID:
            return True
        ends = outcome[entry.producer_id]
        return next(is_commit for offset, is_commit in ends if offset > entry.offset)

    last: dict[Any, int] = {}
    for entry in below:
        if entry.record is not None and counts(entry):
            last[entry.record.key] = entry.offset
    kept = [
        entry
        for entry in below
        if entry.record is None or last.get(entry.record.key) == entry.offset
    ]
    return kept + [entry for entry in entries if entry.offset >= upto]


def key(partition: int = 0, topic: str = "t", group_id: str = "g") -> OffsetCommitKey:
    return OffsetCommitKey(group_id, topic, partition)
