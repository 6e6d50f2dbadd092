"""The groups of one shard on its broker: the host side of the coordinator's first application.

`core/groups` decides. This file carries effects out: it marks streams, wants targets and starts
timers. It renders a member's state when that is sent, and only while all of it is committed
(I-104, I-131).
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.classic.commands import (
    CallDropped,
    ClassicCommand,
    ClassicHeartbeat,
    JoinEnded,
    JoinGroup,
    SyncEnded,
    SyncGroup,
)
from strandline_broker.core.groups.commands import (
    EXPIRED_AT_ONCE_MAX,
    CommitOffsets,
    ConsumerBeat,
    DescribeGroup,
    Expire,
    FetchOffsets,
    GroupsListed,
    Inputs,
    ListGroups,
    RebalanceEnded,
    Reconcile,
    SessionEnded,
    ToRender,
    TxnOffsetCommit,
)
from strandline_broker.core.groups.effects import (
    Answer,
    Changed,
    Compute,
    JoinTimer,
    Rebalances,
    RebalanceTimer,
    SessionTimer,
    StartTimer,
    StopTimer,
    SyncTimer,
    TimerKey,
)
from strandline_broker.hosts.coordination.waiting import Asked
from strandline_broker.hosts.groups.leadership_proof import ENDING, LeadershipProof, not_sure
from strandline_broker.hosts.groups.parked_calls import ParkedCalls
from strandline_broker.hosts.groups.sessions import Sessions
from strandline_broker.hosts.groups.topics_watch import TopicsWatch
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.errors import InvalidCommitOffsetSize, WireError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from strandline_broker.core.coordination.decision import Decision, Record
    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import BeatAnswer, Command, FetchedOffset, Reply
    from strandline_broker.core.groups.consumer.target import ToAssign
    from strandline_broker.core.groups.effects import Effect
    from strandline_broker.core.groups.groups import Groups
    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.core.replication.verification import Guards
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.coordination.waiting import Waiting
    from strandline_broker.hosts.groups.group_context import GroupContext
    from strandline_proto.ids import TopicId

READS: Final = (FetchOffsets, DescribeGroup, ListGroups, ClassicHeartbeat, CallDropped)
"""Commands that write nothing: too few replicas in sync do not refuse them. FetchOffsets follows a
write, however, while the broker has no news from the controller.
"""


class GroupShard:
    """An `Application`."""

    def __init__(self, context: GroupContext, shard: ShardHost[GroupShard]) -> None:
        self.context = context
        self.shard = shard
        self.machine = shard.machine
        self.groups = context.new_groups()
        self.sessions = Sessions()
        self.topics = TopicsWatch(self)
        self.calls = ParkedCalls(shard, context.timeout_s)
        self._proof = LeadershipProof(self)

    # Calls

    def ask(self, command: Command, asked: Asked[Reply] | None = None) -> Asked[Reply]:
        """Carries the command out for `asked`, or for a new call that renders a member's state into
        its answer; an error is an answer.
        """
        if asked is None:
            asked = Rendering(self, self.context.timeout_s)
        if isinstance(command, FetchOffsets) and not self.context.is_sure():
            self._proof.before(command, asked)
        else:
            self.shard.ask(command, asked)
        return asked

    def submit(self, command: Command) -> asyncio.Future[Reply]:
        """Returns the answer as a future."""
        return self.ask(command).answer

    def run(self, command: Command) -> Reply:
        """Carries the command out without a ticket; WireError if nothing was done."""
        reply: Reply = self.shard.run(command)
        return reply

    def end_transaction(self, marker: EndMarker) -> Asked[None]:
        """Writes the marker of a transaction that may contain offsets of these groups. The answer
        is None once the marker is committed; an error is an answer.
        """
        asked = Asked[None](self.shard, self.context.timeout_s)
        ended = self.groups.table.pending.groups_of(marker.producer_id)
        self.shard.end_transaction(marker, asked)
        if self.context.events.is_watched:
            for group_id in sorted(ended):
                self.context.changed.note(group_id)
        return asked

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """True if the producer's transaction in this epoch has offsets in this partition."""
        return self.shard.partition.producers.open_epoch(producer_id) == producer_epoch

    @property
    def guards(self) -> Guards:
        """The guards of transactions in this partition. Raises WireError if the shard does not
        serve.
        """
        if (refusal := self.shard.refusal()) is not None:
            raise refusal
        return check_leader(self.shard.partition, self.machine.epoch).appends.guards

    # Answers

    def may_tell(self, waiting: Waiting, group_id: str, member_id: str) -> bool:
        """True if all about the member is committed; if not, `waiting` is called when it is."""
        return self.machine.park(waiting, (group_id, member_id))

    def render(self, what: ToRender) -> BeatAnswer | WireError:
        """Returns the member's state, to be sent now."""
        if self.machine.state is not ShardState.ACTIVE:
            refusal = self.shard.refusal()
            assert refusal is not None, "a shard that does not serve refuses"
            return refusal
        return self.groups.render(what.group_id, what.member_id, self.inputs(), full=what.full)

    def committed_offsets(
        self, group_id: str, partitions: PartitionSets
    ) -> tuple[FetchedOffset, ...]:
        """Returns the offsets; none while anything of the group is not committed yet, or may be
        outdated.
        """
        wanted = {topic_id: each for topic_id, each in partitions.items() if each}
        if not (wanted and self.machine.is_committed(group_id) and self.context.is_sure()):
            return ()
        return self.groups.granted_offsets(group_id, wanted, self.inputs())

    # State

    def to_assign(self, group_id: str) -> ToAssign | None:
        """Returns the target to compute for a group; None: it has one, or the shard does not
        serve.
        """
        if self.machine.state is not ShardState.ACTIVE:
            return None
        return self.groups.to_assign(group_id, self.inputs())

    def heard(self, group_id: str, member_id: str) -> None:
        """Renews the session of a member that has sent a message, whatever became of it."""
        self.context.timers.renew(self.shard, SessionTimer(group_id, member_id))

    async def expire(self) -> None:
        """Removes what is past its retention; other work goes on between two groups."""
        for group_id in self.groups.group_ids():
            more = True
            while more:
                await asyncio.sleep(0)
                try:
                    more = self.run(Expire(group_id)) == EXPIRED_AT_ONCE_MAX
                except WireError:
                    return  # at the next sweep

    def states(self) -> list[str]:
        """Returns the state of each group."""
        if self.machine.state is not ShardState.ACTIVE:
            return []
        listed = self.groups.decide(ListGroups(), self.inputs()).answer
        assert isinstance(listed, GroupsListed), listed
        return [group.state for group in listed.groups]

    def shard_state(self) -> str:
        """Returns the state of the shard, as metrics name it."""
        return self.machine.state.value

    def members(self) -> int:
        """Returns the number of members; each has a session (I-137)."""
        return sum(isinstance(key, SessionTimer) for key in self.timers())

    def committed(self) -> Iterator[tuple[str, str, TopicId | None, int, int]]:
        """Yields group, topic, topic id, partition and offset of all committed offsets."""
        if self.machine.state is not ShardState.ACTIVE:
            return
        for group_id in self.groups.group_ids():
            for topic, partition, value in self.groups.table.offsets_of(group_id):
                yield group_id, topic, value.topic_id, partition, value.offset

    def members_by_group(self) -> Iterator[tuple[str, int]]:
        """Yields the groups with the number of their members."""
        if self.machine.state is not ShardState.ACTIVE:
            return
        table = self.groups.table
        for group_id in self.groups.group_ids():
            group = table.consumer.get(group_id) or table.live.get(group_id)
            yield group_id, 0 if group is None else len(group.members)

    def timers(self) -> set[TimerKey]:
        """Returns the keys of the groups' timers that run."""
        running = self.context.timers.running(self.shard)
        return {key for key in running if isinstance(key, TimerKey)}

    def has_member(self, group_id: str, member_id: str) -> bool:
        """True if the group has this member; one that is joining does not count yet."""
        group = self.groups.table.consumer.get(group_id)
        return group is not None and member_id in group.members

    def inputs(self) -> Inputs:
        return self.context.inputs(batch_bytes_max=self.shard.partition.max_message_bytes)

    # As the application of its shard

    @property
    def state(self) -> Groups:
        """The groups, as the fold of the log."""
        return self.groups

    def decide(self, command: Command) -> Decision[Reply, Effect]:
        """Returns the decision of the groups. A refusal after which a client stops for good is for
        a coordinator that is certainly in office (I-124).
        """
        decision = self.groups.decide(command, self.inputs())
        refusal = decision.answer
        if isinstance(refusal, ENDING) and not self.context.is_sure():
            return replace(decision, answer=not_sure(self, refusal))
        return decision

    def only_reads(self, command: Command) -> bool:
        """True for the commands that write nothing."""
        return isinstance(command, READS)

    def is_undone(self, command: Command) -> bool:
        """True for a commit, which changes nothing but by its records."""
        return isinstance(command, CommitOffsets | TxnOffsetCommit)

    def too_large(self, what: str) -> WireError:
        """Returns the error for records that exceed a batch."""
        return InvalidCommitOffsetSize(f"{what}; commit fewer partitions at a time")

    def refused(self, command: Command) -> None:
        """Renews the session of a member whose message cannot be written."""
        if isinstance(command, ConsumerBeat | JoinGroup | SyncGroup | CommitOffsets):
            self.heard(command.group_id, command.member_id)

    def appended(self, records: Sequence[Record]) -> None:
        """Counts the records."""
        self.context.metrics.on_records(records)
        if self.context.events.is_watched:
            self.context.changed.on_records(records)

    def carry_out(self, command: Command, effects: Iterable[Effect]) -> None:
        """Carries the effects out, and reconciles members that a push reaches."""
        told: dict[str, set[str]] = {}
        for effect in effects:
            if isinstance(effect, Changed):
                members = self.sessions.tell(effect.group_id, effect.members)
                told.setdefault(effect.group_id, set()).update(members)
            elif isinstance(effect, Compute):
                self.context.assigning.want(self, effect.group_id)
                if isinstance(command, ConsumerBeat):  # its answer reaches the sender
                    told.setdefault(effect.group_id, set()).add(command.member_id)
            else:
                self._carry_out(effect)
        if self.context.events.is_watched and isinstance(command, ClassicCommand):
            self.context.changed.note(command.group_id)  # it may have changed without a record
        if isinstance(command, Reconcile):
            return  # it frees nothing that another member waits for
        for group_id, reached in told.items():
            if reached:
                with contextlib.suppress(WireError):  # their next heartbeats bring them there
                    self.run(Reconcile(group_id, tuple(sorted(reached))))

    def _carry_out(self, effect: StartTimer | StopTimer | Answer | Rebalances) -> None:
        if isinstance(effect, StartTimer):
            self.context.timers.start(self.shard, effect.key, effect.ms, effect.epoch)
        elif isinstance(effect, StopTimer):
            self.context.timers.stop(self.shard, effect.key)
        elif isinstance(effect, Answer):
            self.calls.answer(effect)
        else:
            self.context.metrics.rebalances()
            if self.context.events.is_watched:
                self.context.changed.on_rebalance(effect.group_id, effect.generation, effect.why)
            self.context.shared.runtime.log.info(
                "a group rebalances",
                group=effect.group_id,
                generation=effect.generation,
                why=effect.why,
            )

    def on_timer(self, key: Hashable, epoch: int) -> Command:
        """Returns the end of a session, of a rebalance of the member with that epoch, or of a phase
        of a classic group.
        """
        match key:
            case SessionTimer():
                return SessionEnded(key.group_id, key.member_id)
            case JoinTimer():
                return JoinEnded(key.group_id)
            case SyncTimer():
                return SyncEnded(key.group_id, epoch)
        assert isinstance(key, RebalanceTimer), key
        return RebalanceEnded(key.group_id, key.member_id, epoch)

    def loaded(self, took_s: float) -> None:
        """Counts the time of a load."""
        self.context.metrics.loaded(took_s)

    def serves(self) -> None:
        """Starts the timers of the loaded groups, and lets these look at their topics."""
        for timer in self.groups.timers(self.inputs()):
            self._carry_out(timer)
        self.topics.look()

    def dropped(self, error: WireError) -> None:
        """Forgets the groups, and ends their streams, parked calls and computations (I-110)."""
        self._proof.forget(error)
        self.calls.lose_all(error)
        self.context.assigning.forget(self)
        self.sessions.end_all(error)
        self.groups = self.context.new_groups()


class Rendering(Asked["Reply"]):
    """One call. An answer about a member contains its state when the call is answered. A rendered
    state counts as sent, so only a call whose answer is sent may render it.
    """

    __slots__ = ("_groups",)

    def __init__(self, groups: GroupShard, timeout_s: float) -> None:
        super().__init__(groups.shard, timeout_s)
        self._groups = groups

    def committed(self) -> None:
        """Gives the answer, after it has rendered the member's state."""
        reply = self.reply
        if isinstance(reply, ToRender) and not self.is_over:
            if not self._groups.may_tell(self, reply.group_id, reply.member_id):
                self.parked()  # the member was written again meanwhile (I-131)
                return
            self.reply = self._groups.render(reply)
        super().committed()
