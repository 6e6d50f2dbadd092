"""One shard of the groups' coordinator, on the broker that leads its partition.

A command is one step without `await`: look whether this broker leads in the shard's epoch and has
enough replicas in sync, decide on what is written, encode all records into one batch, replay them,
append the batch, and only then wait. Replay stands before append, so that a record which cannot be
replayed is never written; an append that fails afterwards throws the state away, and the shard is
loaded again (I-102, I-107, I-108). Nobody hears of anything before the high watermark of the same
leadership has passed it (I-104, I-105).
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.shard import Drop, Load, Release, Serve, Shard, ShardState
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
)
from strandline_broker.core.groups.effects import (
    Changed,
    Compute,
    SessionTimer,
    StartTimer,
    StopTimer,
)
from strandline_broker.core.replication.append_origin import AppendOrigin
from strandline_broker.hosts.coordination.loader import CannotLoad, load_groups, until_sound
from strandline_broker.hosts.coordination.shard_batch import batch_of, entities_of
from strandline_broker.hosts.coordination.waiting import Asked
from strandline_broker.hosts.groups.leadership_proof import LeadershipProof
from strandline_broker.hosts.groups.sessions import Sessions
from strandline_broker.hosts.groups.topics_watch import TopicsWatch
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    InvalidCommitOffsetSize,
    NotCoordinator,
    NotEnoughReplicas,
    WireError,
)
from strandline_proto.ids import LeaderEpoch, Offset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.core.coordination.decision import Decision, Record
    from strandline_broker.core.coordination.shard import ShardEffect
    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import (
        BeatAnswer,
        Command,
        FetchedOffset,
        Reply,
        ToRender,
    )
    from strandline_broker.core.groups.consumer.target import ToAssign
    from strandline_broker.core.groups.effects import Effect, TimerKey
    from strandline_broker.hosts.coordination.shard_context import ShardContext
    from strandline_broker.hosts.coordination.waiting import Waiting
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome

READS: Final = (FetchOffsets, DescribeGroup, ListGroups)
"""Commands that write nothing: answered with whatever replicas are in sync. FetchOffsets follows a
write, however, while the controller is not heard.
"""
RETRY_MS: Final = 1_000
"""How long after a timer could do nothing, for want of replicas in sync, it tries again."""


class ShardHost:
    def __init__(self, context: ShardContext, partition: Partition) -> None:
        self.context = context
        self.partition = partition
        self.name = partition.name
        self.machine: Shard[Waiting] = Shard()
        self.groups = context.new_groups()
        self.sessions = Sessions()
        self.topics = TopicsWatch(self)
        self._proof = LeadershipProof(self)
        self._settled = asyncio.Event()
        self._steps = 0
        """Commands under way: what one brings about is part of its step."""
        self._committed_in_step: int | None = None
        self._given_up = 0

    # The partition's role

    def elected(self, epoch: int, start: int) -> None:
        self._carry_out(self.machine.elected(LeaderEpoch(epoch), Offset(start)))
        self.committed(self.partition.high_watermark)

    def committed(self, end: int) -> None:
        if self._steps > 0:  # a leader that is alone in the ISR commits as it appends
            self._committed_in_step = end
            return
        self._carry_out(self.machine.committed(Offset(end)))

    def resigned(self, epoch: int) -> None:
        self._committed_in_step = None  # of that leadership (I-105)
        self._carry_out(self.machine.resigned(LeaderEpoch(epoch)))

    def deleted(self) -> None:
        self._committed_in_step = None
        self._carry_out(self.machine.deleted())

    # What others ask

    def ask(
        self, command: Command, *, renders: bool = True, timeout_s: float | None = None
    ) -> Asked:
        """The reply as it stands now, and the answer once it may be told; an error is one too.
        Where a member is told of itself in another way, the answer `renders` nothing of it.
        """
        limit_s = self.context.timeout_s if timeout_s is None else timeout_s
        asked = Asked(self, limit_s, renders=renders)
        if isinstance(command, FetchOffsets) and not self.context.is_sure():
            self._proof.before(command, asked)
        else:
            self.carry_out(command, asked)
        return asked

    def carry_out(self, command: Command, asked: Asked) -> None:
        """Now, for who has asked; an error is the answer."""
        try:
            self.run(command, asked)
        except WireError as error:
            asked.reply = error
            asked.lost(error)

    def submit(self, command: Command) -> asyncio.Future[Reply]:
        """The answer, once it may be told."""
        return self.ask(command).answer

    def run(self, command: Command, waiting: Asked | None = None) -> Reply:
        """Carry the command out now. What it says is for `waiting`, or for whom the caller makes
        wait; WireError if nothing was done.
        """
        self._check(command)
        self._steps += 1
        try:
            decision = self.groups.decide(command, self.inputs())
            end = self._append(command, decision.records) if decision.records else None
            is_committed = False
            if waiting is not None:
                waiting.reply = decision.answer
                is_committed = self._park(waiting, decision, end)
            self._do(command, decision.effects)
            if waiting is not None and is_committed:
                waiting.committed()
        finally:
            self._steps -= 1
            self._catch_up()
        return decision.answer

    def _park(
        self, waiting: Waiting, decision: Decision[Reply, Effect], end: Offset | None
    ) -> bool:
        if end is None:
            return self.machine.park(waiting, decision.about)
        return self.machine.park_until(waiting, end)

    def may_tell(self, waiting: Waiting, group_id: str, member_id: str) -> bool:
        """Whether all about the member is committed; else `waiting` hears when it is."""
        return self.machine.park(waiting, (group_id, member_id))

    def refusal(self) -> WireError | None:
        """What everybody is told at present; None: the shard serves."""
        refusal = self.machine.refusal()
        if refusal is None:
            return None
        return type(refusal)(f"{self.name} on broker {self.context.me}: {refusal}")

    def render(self, what: ToRender) -> BeatAnswer | WireError:
        if (refusal := self.refusal()) is not None:
            return refusal
        return self.groups.render(what.group_id, what.member_id, self.inputs(), full=what.full)

    def committed_offsets(
        self, group_id: str, partitions: PartitionSets
    ) -> tuple[FetchedOffset, ...]:
        """None of them while something of the group is not committed yet, or may not be true."""
        wanted = {topic_id: each for topic_id, each in partitions.items() if each}
        if not (wanted and self.machine.is_committed(group_id) and self.context.is_sure()):
            return ()
        return self.groups.granted_offsets(group_id, wanted, self.inputs())

    def to_assign(self, group_id: str) -> ToAssign | None:
        """What an assignor is to divide for a group that wants a target."""
        if self.machine.state is not ShardState.ACTIVE:
            return None
        return self.groups.to_assign(group_id, self.inputs())

    async def settled(self, timeout_s: float) -> None:
        """Wait until it serves or says why not, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()

    def heard(self, group_id: str, member_id: str) -> None:
        """A message of a member, which is alive whatever became of the message."""
        self.context.timers.renew(self, SessionTimer(group_id, member_id))

    def on_given_up(self) -> None:
        """Somebody waits no more: they are dropped when they may be half of all."""
        self._given_up += 1
        if 2 * self._given_up >= self.machine.waiting:
            self._given_up = 0
            self.machine.forget(lambda w: isinstance(w, Asked) and w.answer.done())

    def on_timer(self, key: TimerKey, member_epoch: int) -> None:
        command: Command
        if isinstance(key, SessionTimer):
            command = SessionEnded(key.group_id, key.member_id)
        else:
            command = RebalanceEnded(key.group_id, key.member_id, member_epoch)
        try:
            self.run(command)
        except WireError:
            if self.machine.state is ShardState.ACTIVE:
                self.context.timers.start(self, key, RETRY_MS, member_epoch)

    async def expire(self) -> None:
        """Forget what is past its retention; other work goes on between two groups."""
        for group_id in self.groups.group_ids():
            more = True
            while more:
                await asyncio.sleep(0)
                try:
                    more = self.run(Expire(group_id)) == EXPIRED_AT_ONCE_MAX
                except WireError:
                    return  # at the next sweep

    def states(self) -> list[str]:
        """Of each group the state that it is in."""
        if self.machine.state is not ShardState.ACTIVE:
            return []
        listed = self.groups.decide(ListGroups(), self.inputs()).answer
        assert isinstance(listed, GroupsListed), listed
        return [group.state for group in listed.groups]

    def members(self) -> int:
        """Each has a session (I-137)."""
        running = self.context.timers.running(self)
        return sum(isinstance(key, SessionTimer) for key in running)

    def inputs(self) -> Inputs:
        return self.context.inputs()

    # A step

    def _check(self, command: Command) -> None:
        if (refusal := self.refusal()) is not None:
            raise refusal
        partition = self.partition
        try:
            leading = check_leader(partition, self.machine.epoch)
        except WireError as error:
            raise NotCoordinator(str(error)) from error
        if isinstance(command, READS):
            return
        try:
            leading.machine.check_can_append_all()
            if (why := self.context.dirs.why_full(partition.log)) is not None:
                raise NotCoordinator(f"{self.name} on broker {self.context.me}: {why}")
        except WireError as error:
            if isinstance(command, ConsumerBeat):
                self.heard(command.group_id, command.member_id)
            if isinstance(error, NotEnoughReplicas):
                raise CoordinatorNotAvailable(f"broker {self.context.me}: {error}") from error
            raise

    def _append(self, command: Command, records: Sequence[Record]) -> Offset:
        """The end of the one batch that holds them all."""
        partition, context = self.partition, self.context
        batch = batch_of(records, context.wall_ms())
        if len(batch) > partition.max_message_bytes:
            if not isinstance(command, CommitOffsets):  # which changes nothing but by its records
                self._load_again()
            raise InvalidCommitOffsetSize(
                f"{self.name}: {len(records)} records of {len(batch)} bytes do not fit into one"
                f" batch of {partition.max_message_bytes}; commit fewer partitions at a time"
            )
        self._replay(records)
        try:
            check_leader(partition, self.machine.epoch).appends.append(
                batch,
                acks=1,
                on_done=_nobody_waits,
                origin=AppendOrigin.COORDINATOR,
            )
        except WireError as error:
            if self.machine.state is ShardState.ACTIVE:  # and not put out of service with its disk
                self._load_again()
            raise NotCoordinator(f"{self.name}: nothing was written: {error}") from error
        end = Offset(partition.log.log_end_offset)
        self.machine.appended(entities_of(records), end)
        context.metrics.on_records(records)
        return end

    def _replay(self, records: Sequence[Record]) -> None:
        offset = self.partition.log.log_end_offset
        for number, record in enumerate(records):
            try:
                self.groups.replay(Offset(offset + number), record)
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be written after it
                self.context.runtime.exit(f"{self.name}: cannot replay {record}: {error!r}")

    def _load_again(self) -> None:
        log_end = Offset(self.partition.log.log_end_offset)
        self._carry_out(self.machine.append_failed(log_end))

    def _do(self, command: Command, effects: Iterable[Effect]) -> None:
        timers = self.context.timers
        told: dict[str, set[str]] = {}
        for effect in effects:
            if isinstance(effect, StartTimer):
                timers.start(self, effect.key, effect.ms, effect.member_epoch)
            elif isinstance(effect, StopTimer):
                timers.stop(self, effect.key)
            elif isinstance(effect, Changed):
                members = self.sessions.tell(effect.group_id, effect.members)
                told.setdefault(effect.group_id, set()).update(members)
            elif isinstance(effect, Compute):
                self.context.assigning.want(self, effect.group_id)
                if isinstance(command, ConsumerBeat):  # its answer reaches the sender
                    told.setdefault(effect.group_id, set()).add(command.member_id)
        if isinstance(command, Reconcile):
            return  # it frees nothing that another member waits for
        for group_id, reached in told.items():
            if reached:
                with contextlib.suppress(WireError):  # their next heartbeats bring them there
                    self.run(Reconcile(group_id, tuple(sorted(reached))))

    # The shard's life

    def _catch_up(self) -> None:
        if self._steps > 0:
            return
        end, self._committed_in_step = self._committed_in_step, None
        if end is not None:
            self.committed(end)

    def _carry_out(self, effects: Iterable[ShardEffect[Waiting]]) -> None:
        for effect in effects:
            if isinstance(effect, Drop):
                self._drop(effect)
            elif isinstance(effect, Load):
                self._settled.clear()
                self._start(effect)
            elif isinstance(effect, Serve):
                self._serve()
            elif isinstance(effect, Release):
                for waiting in effect.waiters:
                    waiting.committed()

    def _drop(self, drop: Drop[Waiting]) -> None:
        """Nothing of it stays (I-110)."""
        gone = NotCoordinator(
            f"{self.name}: broker {self.context.me} does not coordinate it any more, or loads it"
            " again; what was asked may have been done"
        )
        for waiting in drop.waiters:
            waiting.lost(gone)
        self._proof.forget(gone)
        self.context.timers.stop_all(self)
        self.context.assigning.forget(self)
        self.sessions.end_all(gone)
        self.groups = self.context.new_groups()
        self._given_up = 0
        self._settled.set()

    def _serve(self) -> None:
        for timer in self.groups.timers(self.inputs()):
            self.context.timers.start(self, timer.key, timer.ms, timer.member_epoch)
        self._settled.set()
        self.topics.look()

    def _start(self, load: Load) -> None:
        if load.end > self.partition.log.log_start_offset:
            self.context.spawn(self._load(load))
        else:
            self._carry_out(self.machine.loaded(load))

    async def _load(self, load: Load) -> None:
        context, partition = self.context, self.partition
        is_current = partial(self.machine.is_current, load)
        began_s = context.runtime.clock.monotonic()
        try:
            await load_groups(context, partition, self.groups, end=load.end, is_current=is_current)
        except CannotLoad as error:
            if is_current():
                context.runtime.log.error(
                    "a coordinator's log cannot be loaded; its groups are out of service",
                    partition=self.name,
                    leader_epoch=load.epoch,
                    why=str(error),
                )
            self._carry_out(self.machine.load_failed(load))
            if error.may_pass:
                await until_sound(partition, load.end, partial(self.machine.has_failed, load))
                self._carry_out(self.machine.load_again(load))
            return
        if is_current():
            context.metrics.loaded(context.runtime.clock.monotonic() - began_s)
            self._carry_out(self.machine.loaded(load))


def _nobody_waits(outcome: ProduceOutcome) -> None:
    """Who waits does so in the shard."""
