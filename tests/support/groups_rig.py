"""A shard's groups without a broker: every decision is encoded, decoded, replayed and kept."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.assignors.range import RangeAssignor
from strandline_broker.core.groups.assignors.uniform import UniformAssignor
from strandline_broker.core.groups.commands import (
    BeatAnswer,
    CommitOffsets,
    ConsumerBeat,
    FetchOffsets,
    Inputs,
    OffsetsCommitted,
    OffsetsFetched,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
    ToRender,
)
from strandline_broker.core.groups.consumer.regular_expressions import Re2Matcher
from strandline_broker.core.groups.effects import StartTimer, StopTimer
from strandline_broker.core.groups.groups import Groups
from strandline_broker.core.groups.records import codec
from strandline_broker.core.groups.records.classic_records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
)
from strandline_broker.core.groups.settings import GroupSettings
from strandline_broker.core.metadata_cache import CachedTopic, MetadataView
from strandline_broker.core.push_envelope import DynamicConfigs, PartitionMetadata
from strandline_proto.errors import WireError
from strandline_proto.ids import MetadataOffset, Offset, TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.core.coordination.decision import Decision, Producer
    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import Command, FetchedOffset, Reply
    from strandline_broker.core.groups.effects import Effect, TimerKey
    from strandline_broker.core.groups.records.codec import GroupKey, GroupValue

SESSION_MS = 45_000
REBALANCE_MS = 60_000
WALL_MS = 1_700_000_000_000


def topic_id(name: str, creation: int = 0) -> TopicId:
    return TopicId(f"{name[:12]:_<12}{creation:04d}".encode())


def view(topics: Mapping[str, tuple[TopicId, int]], offset: int = 0) -> MetadataView:
    return MetadataView(
        metadata_offset=MetadataOffset(offset),
        topics_by_id={
            tid: CachedTopic(name, tid, {p: PartitionMetadata(p) for p in range(count)}, {})
            for name, (tid, count) in topics.items()
        },
        ids_by_name={name: tid for name, (tid, _) in topics.items()},
    )


@dataclass
class GroupsRig:
    settings: GroupSettings = field(default_factory=GroupSettings)
    topics: dict[str, tuple[TopicId, int]] = field(default_factory=dict)
    now_ms: int = 0
    metadata_offset: int = 0
    count: int = 0
    batch_bytes_max: int = 10 << 20
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    log: list[Record] = field(default_factory=list)
    timers: dict[TimerKey, StartTimer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.groups = self.new_groups()

    def new_groups(self) -> Groups:
        return Groups(self.settings, [UniformAssignor(), RangeAssignor()], Re2Matcher())

    def inputs(self) -> Inputs:
        self.count += 1
        return Inputs(
            now_ms=self.now_ms,
            wall_ms=WALL_MS + self.now_ms,
            metadata=replace(
                view(self.topics, self.metadata_offset),
                dynamic_configs=DynamicConfigs(groups=self.group_configs),
            ),
            batch_bytes_max=self.batch_bytes_max,
            random=hashlib.md5(b"%d" % self.count, usedforsecurity=False).digest(),
        )

    # The world around

    def topic(self, name: str, partitions: int, creation: int = 0) -> TopicId:
        """There is such a topic from now on."""
        self.metadata_offset += 1
        self.topics[name] = (topic_id(name, creation), partitions)
        return self.topics[name][0]

    def no_topic(self, name: str) -> None:
        self.metadata_offset += 1
        del self.topics[name]

    def id_of(self, name: str) -> TopicId:
        return self.topics[name][0]

    def parts(self, **partitions: tuple[int, ...]) -> dict[TopicId, tuple[int, ...]]:
        return {self.id_of(name): ps for name, ps in partitions.items()}

    # What is asked

    def run(self, command: Command) -> Decision[Reply, Effect]:
        decision = self.groups.decide(command, self.inputs())
        self.take(decision.records, decision.producer)
        for effect in decision.effects:
            if isinstance(effect, StartTimer):
                self.timers[effect.key] = effect
            elif isinstance(effect, StopTimer):
                self.timers.pop(effect.key, None)
        return decision

    def take(self, records: Iterable[Record], producer: Producer | None = None) -> None:
        assert producer is None, "TransactionalRig takes these"
        for record in records:
            value = None if record.value is None else codec.encode_value(record.value)
            decoded = codec.decode(codec.encode_key(record.key), value)
            assert not isinstance(decoded, codec.Unknown)
            assert (decoded.key, decoded.value) == (record.key, record.value)
            self.groups.replay(Offset(len(self.log)), record)
            self.log.append(record)

    def ask(self, command: Command) -> Any:
        """The answer, as it may be told when everything is committed; raises a refusal."""
        answer = self.run(command).answer
        if isinstance(answer, ToRender):
            answer = self.render(answer.group_id, answer.member_id, full=answer.full)
        if isinstance(answer, WireError):
            raise answer
        return answer

    def render(self, group_id: str, member_id: str, *, full: bool = False) -> Reply:
        return self.groups.render(group_id, member_id, self.inputs(), full=full)

    def join(self, member_id: str, *topics: str, **more: Any) -> BeatAnswer:
        answer = self.ask(joining(member_id, *topics, **more))
        assert isinstance(answer, BeatAnswer)
        return answer

    def beat(
        self, member_id: str, epoch: int, owned: PartitionSets | None = None, **more: Any
    ) -> BeatAnswer:
        fields_: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
        answer = self.ask(ConsumerBeat(**(fields_ | {"owned": owned} | more)))
        assert isinstance(answer, BeatAnswer)
        return answer

    def commit(
        self, offset: int, *, topic: str = "t", partition: int = 0, **more: Any
    ) -> WireError | None:
        """What became of the one partition; raises what refuses all."""
        wish = PartitionCommit(TopicRef(name=topic), partition, offset)
        fields_: dict[str, Any] = {"group_id": "g", "partitions": (wish,)} | more
        answer = self.ask(CommitOffsets(**fields_))
        assert isinstance(answer, OffsetsCommitted)
        return answer.errors[0]

    def fetch(self, topic: str = "t", partition: int = 0, **more: Any) -> FetchedOffset:
        ref = TopicPartitionsRef(TopicRef(name=topic), (partition,))
        fields_: dict[str, Any] = {"group_id": "g", "topics": (ref,)} | more
        answer = self.ask(FetchOffsets(**fields_))
        assert isinstance(answer, OffsetsFetched)
        return answer.offsets[0]

    # What holds

    def assigned(self, member_id: str, group_id: str = "g") -> PartitionSets:
        answer = self.groups.render(group_id, member_id, self.inputs(), full=True)
        assert isinstance(answer, BeatAnswer), answer
        assert answer.assignment is not None
        return answer.assignment

    def load(self, log: Iterable[Record] | None = None) -> Groups:
        """What a coordinator is that loads this log, or the rig's own."""
        groups = self.new_groups()
        for offset, record in enumerate(self.log if log is None else log):
            groups.replay(Offset(offset), record)
        return groups

    def fail_over(self) -> None:
        """Another coordinator takes over what is written."""
        self.groups = self.load()
        self.timers = {timer.key: timer for timer in self.groups.timers(self.inputs())}


def joining(member_id: str, *topics: str, **more: Any) -> ConsumerBeat:
    fields_: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": REBALANCE_MS,
        "subscribed_topic_names": topics,
        "owned": {},
        "client_id": "c",
        "client_host": "/127.0.0.1",
    }
    return ConsumerBeat(**(fields_ | more))


def classic_group(*members: str) -> Record:
    """A group of the classic protocol whose members subscribe to topic `t`."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="a",
        current_state_timestamp_ms=1,
        members=tuple(
            ClassicMember(
                member_id=member,
                client_id="c",
                client_host="/h",
                rebalance_timeout_ms=1,
                session_timeout_ms=9000,
                subscription=bytes.fromhex("0000 00000001 0001 74 ffffffff"),
                assignment=b"",
            )
            for member in members
        ),
    )
    return Record(GroupMetadataKey("g"), value)


def durable(groups: Groups) -> dict[str, Any]:
    """All that the records of a shard tell, as plain values that can be compared."""
    table = groups.table
    consumer = {group_id: dict(vars(group)) for group_id, group in table.consumer.items()}
    return {"consumer": consumer, "classic": dict(table.classic), "offsets": dict(table.offsets)}


def compacted(log: Iterable[Record], *, upto: int | None = None) -> list[Record]:
    """What the cleaner leaves of it below `upto`, tombstones dropped, and the rest as it is."""
    records = list(log)
    end = len(records) if upto is None else upto
    last: dict[GroupKey, int] = {r.key: n for n, r in enumerate(records[:end])}
    kept = [r for n, r in enumerate(records[:end]) if last[r.key] == n and r.value is not None]
    return kept + records[end:]


def final_values(log: Iterable[Record]) -> dict[GroupKey, GroupValue]:
    """What a whole compaction would leave."""
    return {r.key: r.value for r in compacted(log) if r.value is not None}
