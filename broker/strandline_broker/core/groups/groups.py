"""All groups of one shard: commands in, records and answers out, records replayed.

`decide` changes no state that a record contains. Only `replay` does, live and at load, so the state
is the fold of the log in every process (I-102). Volatile state is the last answer to each member,
and the epochs that a member may have. Its loss only makes an answer longer, or makes the shard
treat an answer as lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.groups import expiry, offsets
from strandline_broker.core.groups.classic import decisions as classic
from strandline_broker.core.groups.classic.commands import ClassicCommand
from strandline_broker.core.groups.commands import (
    JOIN_EPOCH,
    Assigned,
    BeatAnswer,
    CommitOffsets,
    ConsumerBeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    Expire,
    FetchedOffset,
    FetchOffsets,
    ListGroups,
    ProveLeadership,
    RebalanceEnded,
    Reconcile,
    RemoveMembers,
    SessionEnded,
    TopicsChanged,
    TxnOffsetCommit,
)
from strandline_broker.core.groups.consumer import removal
from strandline_broker.core.groups.consumer.consumer import ConsumerGroup, Draft
from strandline_broker.core.groups.consumer.current_assignment import MemberState, sets_of
from strandline_broker.core.groups.consumer.heartbeat import heartbeat
from strandline_broker.core.groups.consumer.heartbeat_rules import check_heartbeat
from strandline_broker.core.groups.consumer.membership import (
    raise_epoch,
    reconcile_member,
    want_target,
)
from strandline_broker.core.groups.consumer.subscription import metadata_hash, resolve
from strandline_broker.core.groups.consumer.target import (
    ToAssign,
    chosen_assignor,
    specification,
    write_target,
)
from strandline_broker.core.groups.context import Context
from strandline_broker.core.groups.describe import described, listed
from strandline_broker.core.groups.effects import (
    Changed,
    RebalanceTimer,
    SessionTimer,
    StartTimer,
)
from strandline_broker.core.groups.group_config import (
    SESSION_TIMEOUT,
    group_value,
    heartbeat_interval_ms,
)
from strandline_broker.core.groups.group_table import GroupTable
from strandline_broker.core.groups.records import codec
from strandline_broker.core.groups.records.classic_records import GroupMetadataKey
from strandline_broker.core.groups.records.consumer_records import ConsumerGroupMemberMetadataKey
from strandline_proto.errors import GroupIdNotFound, InvalidConfig, UnknownMemberId, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.core.coordination.decision import Entity
    from strandline_broker.core.groups.assignors import Assignor, PartitionSets
    from strandline_broker.core.groups.commands import Command, GroupCommand, Inputs, Reply
    from strandline_broker.core.groups.consumer.subscription import Matcher
    from strandline_broker.core.groups.effects import Effect
    from strandline_broker.core.groups.settings import GroupSettings
    from strandline_proto.ids import Offset, ProducerId


class Groups:
    """The groups of one shard, empty until its log is replayed."""

    def __init__(
        self, settings: GroupSettings, assignors: Sequence[Assignor], matcher: Matcher
    ) -> None:
        self._settings = settings
        known = {assignor.name: assignor for assignor in assignors}
        for name in settings.consumer_assignors:
            if name not in known:
                raise InvalidConfig(
                    f"group.consumer.assignors names {name!r}, and there are {', '.join(known)}"
                )
        self._assignors = {name: known[name] for name in settings.consumer_assignors}
        self._matcher = matcher
        self.table = GroupTable()
        self._told_epochs: dict[tuple[str, str], set[int]] = {}
        self._told: dict[tuple[str, str], tuple[PartitionSets, PartitionSets]] = {}
        """(owned partitions, partitions to give up) in the last answer to each member."""

    # Deciding

    def decide(self, command: Command, inputs: Inputs) -> Decision[Reply, Effect]:
        """Decide a command. It raises only for our own bugs; a refusal is an answer. If the host
        does not carry a decision out completely, the shard is unusable and is loaded again.
        """
        context = Context(self._settings, self._assignors, self._matcher, inputs, self._told_epochs)
        try:
            if isinstance(command, ClassicCommand):
                return classic.decide(self.table, command, context)
            return self._decide(command, context)
        except WireError as error:
            group_id = None if isinstance(command, ListGroups) else command.group_id
            return Decision((), error, about=group_id)

    def _decide(self, command: GroupCommand, context: Context) -> Decision[Reply, Effect]:
        table = self.table
        match command:
            case ConsumerBeat():
                return self._heartbeat(command, context)
            case CommitOffsets() | TxnOffsetCommit() | FetchOffsets() | DeleteOffsets():
                return offsets.decide(table, command, context)
            case Expire():
                return expiry.expire(table, command, context)
            case DeleteGroup():
                return expiry.delete_group(table, command, context)
            case ProveLeadership():
                return offsets.say_nothing(command.group_id)
            case DescribeGroup():
                assignors, metadata = tuple(self._assignors), context.inputs.metadata
                answer = described(table, command.group_id, assignors, metadata)
                return Decision((), answer, about=command.group_id)
            case ListGroups():
                return Decision((), listed(table))
            case _:
                return self._change(command, context)

    def _heartbeat(self, beat: ConsumerBeat, context: Context) -> Decision[Reply, Effect]:
        check_heartbeat(beat, tuple(self._assignors), self._matcher)
        group = self.table.consumer.get(beat.group_id)
        if group is None:
            classic.refuse_consumer_protocol(self.table, beat.group_id)
            if not beat.joins:
                raise GroupIdNotFound(f"there is no group {beat.group_id!r}")
        draft = Draft(group or ConsumerGroup(beat.group_id))
        answer = heartbeat(draft, beat, context)
        if group is None:
            classic.give_up(self.table, draft)
        if beat.crossed:  # the answer is sent again: its acknowledgement did not count
            self._told.pop((beat.group_id, beat.member_id), None)
        elif beat.member_epoch >= JOIN_EPOCH:
            self._has_said(beat)
        return self._decision(draft, answer, (beat.group_id, beat.member_id))

    def _has_said(self, beat: ConsumerBeat) -> None:
        """Record a member's report. It has this epoch or, if it was sent, a later one. It has given
        up the partitions that it does not own, so a later request to give them up is new to it.
        """
        key = (beat.group_id, beat.member_id)
        if beat.owned is not None and key in self._told:
            assignment, asked = self._told[key]
            self._told[key] = assignment, _both(asked, beat.owned)
        told = self._told_epochs.get(key, set())
        self._told_epochs[key] = {beat.member_epoch, *(e for e in told if e > beat.member_epoch)}

    def _change(
        self,
        command: Reconcile
        | Assigned
        | SessionEnded
        | RebalanceEnded
        | TopicsChanged
        | RemoveMembers,
        context: Context,
    ) -> Decision[Reply, Effect]:
        """Decide a change of a consumer group by another command than a member's."""
        group_id = command.group_id
        group = self.table.consumer.get(group_id)
        if group is None:
            return self._change_without(command, context)
        draft = Draft(group)
        answer: Reply = None
        match command:
            case Reconcile():
                self._reconcile(draft, command, context)
            case Assigned():
                answer = _take_target(draft, command, context)
            case SessionEnded():
                removal.session_ended(draft, command, context)
            case RebalanceEnded():
                removal.rebalance_ended(draft, command, context)
            case TopicsChanged():
                self._topics_changed(draft, context)
            case RemoveMembers():
                answer = removal.remove(draft, command, context)
        return self._decision(draft, answer, group_id)

    def _change_without(
        self,
        command: Reconcile
        | Assigned
        | SessionEnded
        | RebalanceEnded
        | TopicsChanged
        | RemoveMembers,
        context: Context,
    ) -> Decision[Reply, Effect]:
        """Decide such a change without a consumer group of that id; members of a classic one have
        sessions too.
        """
        group_id = command.group_id
        if isinstance(command, SessionEnded):
            return classic.decide_member(self.table, command, context)
        if isinstance(command, TopicsChanged):
            gone = offsets.of_deleted_topics(self.table, group_id, context.inputs.metadata)
            return Decision(gone, None, about=group_id)
        if isinstance(command, RemoveMembers):
            return classic.decide_removal(self.table, command, context)
        return Decision((), False if isinstance(command, Assigned) else None, about=group_id)

    def _reconcile(self, draft: Draft, command: Reconcile, context: Context) -> None:
        for member_id in sorted(set(command.members)):
            current = draft.current(member_id)
            if member_id not in draft.members or current.is_absent:
                continue
            if current.state is not MemberState.UNKNOWN:
                reconcile_member(draft, context, member_id, owned=None)

    def _topics_changed(self, draft: Draft, context: Context) -> None:
        metadata = context.inputs.metadata
        draft.records += offsets.of_deleted_topics(self.table, draft.group_id, metadata)
        if not draft.members:
            return
        resolve(draft, self._matcher, metadata, context.inputs.wall_ms, again=True)
        if metadata_hash(draft.subscribed_names(), metadata) != draft.metadata_hash:
            raise_epoch(draft, context)
        want_target(draft, context)

    def _decision(self, draft: Draft, answer: Reply, about: Entity) -> Decision[Reply, Effect]:
        effects = list(draft.effects)
        if draft.changed:
            effects.append(Changed(draft.group_id, tuple(sorted(draft.changed))))
        return Decision(tuple(draft.records), answer, tuple(effects), about)

    # The fold of the log

    def replay(self, offset: Offset, record: Record) -> None:
        """Replay records of decisions, or any part of them that compaction has left (I-139)."""
        key, value = record.key, record.value
        self.table.replay(offset, key, value)
        if isinstance(key, ConsumerGroupMemberMetadataKey) and value is None:
            self._told_epochs.pop((key.group, key.member_id), None)
            self._told.pop((key.group, key.member_id), None)

    def replay_transactional(self, offset: Offset, record: Record, producer_id: ProducerId) -> None:
        """Replay a record of an open transaction."""
        self.table.replay_transactional(offset, record.key, record.value, producer_id)

    def replay_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Replay the marker that ends the producer's transaction."""
        self.table.replay_marker(producer_id, is_commit=is_commit)

    def entities_of(self, producer_id: ProducerId) -> set[Entity]:
        """Returns the groups that the marker of the producer's transaction is about."""
        return {*self.table.pending.groups_of(producer_id)}

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Returns the record's key and value as the log has them."""
        return codec.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """Returns a record of the log; None: its type or version is unknown. Raises
        MalformedRecord.
        """
        found = codec.decode(key, value)
        return None if isinstance(found, codec.Unknown) else Record(found.key, found.value)

    def entities(self, records: Iterable[Record]) -> set[Entity]:
        """Returns the groups that the records are about, members by group and member id, and the
        keys of classic groups.
        """
        found: set[Entity] = set()
        for record in records:
            group: str = record.key.group
            found.add(group)
            member_id: str | None = getattr(record.key, "member_id", None)
            if member_id is not None:
                found.add((group, member_id))
            if isinstance(record.key, GroupMetadataKey):
                found.add(record.key)
        return found

    # Queries of the state

    def render(
        self, group_id: str, member_id: str, inputs: Inputs, *, full: bool
    ) -> BeatAnswer | WireError:
        """The member's state, to be sent now; the host has ensured that all of it is committed.

        The assignment is included in three cases: `full` is set; it differs from the last answer;
        or the member must give up partitions that the last answer did not list. In the third case a
        grant was withdrawn before it was sent, so the member does not know of it and would not
        acknowledge it.
        """
        group = self.table.consumer.get(group_id)
        if group is None or member_id not in group.members:
            return UnknownMemberId(
                f"group {group_id!r} has no member {member_id!r}: give up everything, and join "
                "again with epoch 0"
            )
        current = group.current(member_id)
        self._told_epochs.setdefault((group_id, member_id), set()).add(current.epoch)
        assignment: PartitionSets | None = sets_of(current.assigned)
        key, asked = (group_id, member_id), sets_of(current.pending)
        told, told_asked = self._told.get(key, (None, {}))
        self._told[key] = sets_of(current.assigned), asked
        if not full and told == assignment and asked in ({}, told_asked):
            assignment = None
        overrides = inputs.configs_of(group_id)
        interval_ms = heartbeat_interval_ms(self._settings, overrides, members=inputs.members)
        return BeatAnswer(member_id, current.epoch, interval_ms, assignment)

    def granted_offsets(
        self, group_id: str, partitions: PartitionSets, inputs: Inputs
    ) -> tuple[FetchedOffset, ...]:
        """The committed offsets that may be sent with a grant of these partitions."""
        found = ((inputs.metadata.topic(topic_id), ps) for topic_id, ps in partitions.items())
        return tuple(
            offsets.granted(self.table, group_id, topic, partition)
            for topic, ps in found
            if topic is not None
            for partition in ps
        )

    def to_assign(self, group_id: str, inputs: Inputs) -> ToAssign | None:
        """The target to compute for a group; None: it has one by now."""
        group = self.table.consumer.get(group_id)
        if group is None or group.epoch <= group.assignment_epoch:
            return None
        assignor = self._assignors[chosen_assignor(group, tuple(self._assignors))]
        return ToAssign(group_id, group.epoch, assignor, specification(group, inputs.metadata))

    def timers(self, inputs: Inputs) -> tuple[StartTimer, ...]:
        """All timers that this state requires, with full durations; called once after a load
        (I-137).
        """
        timers: list[StartTimer] = []
        for group_id, group in sorted(self.table.consumer.items()):
            session_ms = group_value(SESSION_TIMEOUT, self._settings, inputs.configs_of(group_id))
            for member_id, member in sorted(group.members.items()):
                timers.append(StartTimer(SessionTimer(group_id, member_id), session_ms))
                current = group.current(member_id)
                if current.state is MemberState.UNREVOKED_PARTITIONS:
                    timer = RebalanceTimer(group_id, member_id)
                    timers.append(StartTimer(timer, member.rebalance_timeout_ms, current.epoch))
        return (*timers, *classic.timers(self.table))

    def group_ids(self) -> tuple[str, ...]:
        """All groups that are known, by their own record or by offsets; sorted."""
        return self.table.group_ids()

    def with_regexes(self) -> tuple[str, ...]:
        """Consumer groups whose members subscribe by regular expressions; sorted."""
        consumer = self.table.consumer
        return tuple(sorted(g for g, group in consumer.items() if group.subscribed_regexes()))


def _both(some: PartitionSets, others: PartitionSets) -> PartitionSets:
    """The partitions that are in both."""
    found = {
        topic_id: tuple(p for p in partitions if p in others.get(topic_id, ()))
        for topic_id, partitions in some.items()
    }
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}


def _take_target(draft: Draft, command: Assigned, context: Context) -> bool:
    """Take a target of this epoch and these members; any other is refused (P-149)."""
    wanted = draft.epoch > draft.assignment_epoch
    if (
        not wanted
        or command.group_epoch != draft.epoch
        or set(command.target) != set(draft.members)
    ):
        return False
    write_target(draft, command.target, context.inputs.wall_ms)
    return True
