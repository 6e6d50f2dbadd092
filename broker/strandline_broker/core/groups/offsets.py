"""Committed offsets: the rules for commits, reads and deletions, and the content of each.

An offset is stored under the topic's name together with the topic's id. A topic that is created
again under a name therefore has none (I-145). A commit is one batch, without the partitions that
are refused, which get an error each (I-150). The rules of admission are Kafka's (I-144). A
partition that a member has kept since an earlier epoch may be committed with that epoch during a
rebalance (P-123).

An offset of a transaction is staged until the transaction ends. Until then it is in no answer, and
a read of stable offsets refuses its partition (I-146, I-147).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.groups.admission import (
    admit_commit,
    admit_fetch,
    admit_txn_commit,
    subscribes_to,
)
from strandline_broker.core.groups.classic.consumer_protocol import CONSUMER_PROTOCOL
from strandline_broker.core.groups.classic.members import renewed_session
from strandline_broker.core.groups.commands import (
    CommitOffsets,
    DeletedOffset,
    DeleteOffsets,
    FetchedOffset,
    FetchOffsets,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
    TxnOffsetCommit,
)
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_proto.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidRequest,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    WireError,
)
from strandline_proto.ids import LeaderEpoch, Offset, TopicId, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline_broker.core.groups.commands import OffsetsCommand
    from strandline_broker.core.groups.context import Context
    from strandline_broker.core.groups.effects import Effect
    from strandline_broker.core.groups.group_table import GroupTable
    from strandline_broker.core.metadata_cache import CachedTopic, MetadataView

TIMESTAMP_MAX: Final = (1 << 63) - 1


def say_nothing(group_id: str) -> Decision[None, Effect]:
    """A tombstone for an offset that is not there: no topic's name is empty. Every version, Kafka's
    too, reads over it, and a compaction removes it.
    """
    return Decision((Record(OffsetCommitKey(group_id, "", 0), None),), None, about=group_id)


def decide(
    table: GroupTable, command: OffsetsCommand, context: Context
) -> Decision[OffsetsCommitted | OffsetsFetched | OffsetsDeleted, Effect]:
    match command:
        case CommitOffsets():
            return commit(table, command, context)
        case TxnOffsetCommit():
            return commit_in_transaction(table, command, context)
        case FetchOffsets():
            return fetch(table, command, context)
        case DeleteOffsets():
            return delete(table, command, context)


def commit(
    table: GroupTable, command: CommitOffsets, context: Context
) -> Decision[OffsetsCommitted, Effect]:
    may_commit = admit_commit(table, command)
    records, answer = _committable(command, context, may_commit, command.retention_ms)
    session = renewed_session(table.classic_group(command.group_id), command.member_id)
    return Decision(records, answer, session, about=command.group_id)


def commit_in_transaction(
    table: GroupTable, command: TxnOffsetCommit, context: Context
) -> Decision[OffsetsCommitted, Effect]:
    """Stage offsets until the transaction ends (I-146). A refused partition has no record, in the
    state or in the log (P-137).
    """
    may_commit = admit_txn_commit(table, command)
    records, answer = _committable(command, context, may_commit)
    return Decision(records, answer, about=command.group_id, producer=command.producer)


def _committable(
    command: CommitOffsets | TxnOffsetCommit,
    context: Context,
    may_commit: Callable[[TopicId, int], None],
    retention_ms: int | None = None,
) -> tuple[tuple[Record, ...], OffsetsCommitted]:
    """(the records of the partitions that are not refused, the result of each partition)."""
    inputs = context.inputs
    records: dict[OffsetCommitKey, OffsetCommitValue] = {}
    errors: list[WireError | None] = []
    for wish in command.partitions:
        try:
            topic = _existing(wish.topic, wish.partition, inputs.metadata)
            may_commit(topic.topic_id, wish.partition)
            _check_values(wish, context.settings.offset_metadata_max_bytes)
        except WireError as error:
            errors.append(error)
            continue
        key = OffsetCommitKey(command.group_id, topic.name, wish.partition)
        records[key] = _committed(wish, topic.topic_id, inputs.wall_ms, retention_ms)
        errors.append(None)
    found = tuple(Record(key, value) for key, value in records.items())
    return found, OffsetsCommitted(tuple(errors))


def _committed(
    wish: PartitionCommit, topic_id: TopicId, wall_ms: int, retention_ms: int | None
) -> OffsetCommitValue:
    """The value with the fields that its record has: one with its own expiry has neither leader
    epoch nor topic id, and the state is the same after a load (I-102).
    """
    if retention_ms is not None:
        return OffsetCommitValue(
            offset=Offset(wish.offset),
            metadata=wish.metadata,
            commit_timestamp_ms=wall_ms,
            expire_timestamp_ms=max(0, min(wall_ms + retention_ms, TIMESTAMP_MAX)),
        )
    return OffsetCommitValue(
        offset=Offset(wish.offset),
        leader_epoch=LeaderEpoch(wish.leader_epoch),
        metadata=wish.metadata,
        commit_timestamp_ms=wall_ms,
        topic_id=topic_id,
    )


def fetch(
    table: GroupTable, command: FetchOffsets, context: Context
) -> Decision[OffsetsFetched, Effect]:
    admit_fetch(table, command)
    read = _Read(table, command.group_id, context.inputs.metadata, command.require_stable)
    if command.topics is None:
        found = read.all()
    else:
        found = tuple(
            read.one(ref.topic, partition) for ref in command.topics for partition in ref.partitions
        )
    return Decision((), OffsetsFetched(found), about=command.group_id)


class _Read:
    """One read of a group's offsets."""

    def __init__(
        self, table: GroupTable, group_id: str, metadata: MetadataView, require_stable: bool
    ) -> None:
        self._table = table
        self._group_id = group_id
        self._metadata = metadata
        self._require_stable = require_stable

    def all(self) -> tuple[FetchedOffset, ...]:
        """Every offset; with `require_stable` also the partitions that may have one soon."""
        found = {
            (topic, partition): self._checked(_fetched(value, topic, partition))
            for topic, partition, value in self._table.offsets_of(self._group_id)
            if _is_of(value, topic, self._metadata)
        }
        if self._require_stable:
            for topic, partition, _ in self._table.pending.of_group(self._group_id):
                if (topic, partition) not in found:
                    topic_id = self._metadata.ids_by_name.get(topic)
                    found[topic, partition] = self._checked(
                        FetchedOffset(topic_id, topic, partition)
                    )
        return tuple(offset for _, offset in sorted(found.items(), key=lambda item: item[0]))

    def one(self, topic: TopicRef, partition: int) -> FetchedOffset:
        name, topic_id = _name_and_id(topic, self._metadata)
        if name is None:
            return FetchedOffset(topic.topic_id, "", partition, error=_unknown_id(topic))
        value = self._table.offset(self._group_id, name, partition)
        if value is None or not _is_of(value, name, self._metadata):
            return self._checked(FetchedOffset(topic_id, name, partition))
        return self._checked(_fetched(value, name, partition, topic_id))

    def _checked(self, found: FetchedOffset) -> FetchedOffset:
        """The offset or, where it has to be stable and is not, an error in its place (I-147)."""
        pending = self._table.pending
        if self._require_stable and pending.is_pending(
            self._group_id, found.topic, found.partition
        ):
            return _unstable(self._group_id, found)
        return found


def _unstable(group_id: str, found: FetchedOffset) -> FetchedOffset:
    return FetchedOffset(
        found.topic_id,
        found.topic,
        found.partition,
        error=UnstableOffsetCommit(
            f"an open transaction contains an offset of group {group_id!r} for"
            f" {found.topic}:{found.partition}: ask again when the transaction has ended"
        ),
    )


def delete(
    table: GroupTable, command: DeleteOffsets, context: Context
) -> Decision[OffsetsDeleted, Effect]:
    group_id = command.group_id
    if not table.is_known(group_id):
        raise GroupIdNotFound(f"there is no group {group_id!r}")
    classic = table.classic_group(group_id)
    if classic is not None and classic.members and classic.protocol_type != CONSUMER_PROTOCOL:
        raise NonEmptyGroup(
            f"group {group_id!r} has {len(classic.members)} members, whose protocol "
            f"{classic.protocol_type!r} does not say what they read"
        )
    keys: dict[OffsetCommitKey, None] = {}
    answers: list[DeletedOffset] = []
    for topic, partition in _named(command.topics):
        name, topic_id = _name_and_id(topic, context.inputs.metadata)
        error: WireError | None = None
        if name is None:
            error = _unknown_id(topic)
        elif subscribes_to(table, group_id, name):
            error = GroupSubscribedToTopic(
                f"group {group_id!r} has members that subscribe to topic {name!r}"
            )
        elif table.offset(group_id, name, partition) is not None or table.pending.is_pending(
            group_id, name, partition
        ):
            keys[OffsetCommitKey(group_id, name, partition)] = None
        answers.append(DeletedOffset(topic_id, name or "", partition, error))
    return Decision(
        tuple(Record(key, None) for key in keys), OffsetsDeleted(tuple(answers)), about=group_id
    )


def of_deleted_topics(
    table: GroupTable, group_id: str, metadata: MetadataView
) -> tuple[Record, ...]:
    """Tombstones for the offsets of deleted topics, pending ones too (I-149). An offset without a
    topic id is from a version without ids, and expires by age.

    A tombstone removes both the committed and the pending offset of a name. So none is written
    while one of them belongs to a topic that exists.
    """
    deleted: dict[tuple[str, int], bool] = {}
    for topic, partition, value in _values(table, group_id):
        is_deleted = value.topic_id is not None and value.topic_id not in metadata.topics_by_id
        place = topic, partition
        deleted[place] = deleted.get(place, True) and is_deleted
    return tuple(
        Record(OffsetCommitKey(group_id, topic, partition), None)
        for (topic, partition), all_are in sorted(deleted.items())
        if all_are
    )


def _values(table: GroupTable, group_id: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
    """The committed offsets of a group, and the pending ones."""
    yield from table.offsets_of(group_id)
    for topic, partition, staged in table.pending.of_group(group_id):
        for each in staged:
            yield topic, partition, each.value


def granted(table: GroupTable, group_id: str, topic: CachedTopic, partition: int) -> FetchedOffset:
    """The offset at which a new owner begins. The owner asks for one that a transaction may yet
    change (P-151).
    """
    value = table.offset(group_id, topic.name, partition)
    found = FetchedOffset(topic.topic_id, topic.name, partition)
    if table.pending.is_pending(group_id, topic.name, partition):
        return _unstable(group_id, found)
    if value is None or value.topic_id not in (None, topic.topic_id):
        return found
    return _fetched(value, topic.name, partition, topic.topic_id)


def _fetched(
    value: OffsetCommitValue, topic: str, partition: int, topic_id: TopicId | None = None
) -> FetchedOffset:
    return FetchedOffset(
        topic_id or value.topic_id,
        topic,
        partition,
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def _is_of(value: OffsetCommitValue, topic: str, metadata: MetadataView) -> bool:
    """True if the offset belongs to the topic that has the name now; an unknown name contradicts no
    offset.
    """
    present = metadata.ids_by_name.get(topic)
    return present is None or value.topic_id is None or value.topic_id == present


def _existing(topic: TopicRef, partition: int, metadata: MetadataView) -> CachedTopic:
    if topic.topic_id is not None:
        found = metadata.topic(topic.topic_id)
        if found is None:
            raise _unknown_id(topic)
    else:
        found = metadata.topic_named(topic.name)
        if found is None:
            raise UnknownTopicOrPartition(f"there is no topic {topic.name!r}")
    if partition not in found.partitions:
        raise UnknownTopicOrPartition(
            f"topic {found.name!r} has no partition {partition}, it has {len(found.partitions)}"
        )
    return found


def _check_values(wish: PartitionCommit, metadata_bytes_max: int) -> None:
    if wish.offset < 0:
        raise InvalidRequest(
            f"offset {wish.offset} of partition {wish.partition} is below 0: commit the offset of "
            "the next record to read"
        )
    if len(wish.metadata.encode()) > metadata_bytes_max:
        raise OffsetMetadataTooLarge(
            f"the metadata has {len(wish.metadata.encode())} bytes, and offset.metadata.max.bytes "
            f"allows {metadata_bytes_max}"
        )


def _name_and_id(topic: TopicRef, metadata: MetadataView) -> tuple[str | None, TopicId | None]:
    """(name, id) of a topic. Without a name, the id belongs to no existing topic."""
    if topic.topic_id is None:
        return topic.name, metadata.ids_by_name.get(topic.name)
    found = metadata.topic(topic.topic_id)
    return (None if found is None else found.name), topic.topic_id


def _unknown_id(topic: TopicRef) -> UnknownTopicId:
    assert topic.topic_id is not None
    return UnknownTopicId(f"there is no topic of id {topic_id_text(topic.topic_id)}")


def _named(topics: tuple[TopicPartitionsRef, ...]) -> Iterator[tuple[TopicRef, int]]:
    for ref in topics:
        for partition in ref.partitions:
            yield ref.topic, partition
