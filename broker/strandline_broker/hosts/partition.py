"""One replica of one partition: its log, its role, and who waits for it.

The host of the core machines: it hands them what happened and carries out what they wish.
Everything between a check and the act upon it is synchronous; after each await the role and its
epoch are checked again (I-42, P-38). Role changes and truncations, which must be durable, run on
the disk pool under `gate`: nothing is served, appended or applied meanwhile.

When a role ends, who waits hears that their records' fate is unknown (P-25). A follower's watermark
falls only with a truncation (I-13), which cuts epochs and producers' state too (I-47, I-58).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from strandline_broker.core.fencing import check_leader_epoch
from strandline_broker.core.follower import Follower, TruncateFully, TruncateTo
from strandline_broker.core.leader import HighWatermarkRaised, Leader, ProposeIsr
from strandline_broker.core.producer_state import ProducerStates
from strandline_broker.core.truncation import follower_high_watermark, follower_log_start
from strandline_broker.hosts.appends import Appends
from strandline_broker.hosts.deletions import Deletions
from strandline_broker.hosts.flush_schedule import flush_if_many
from strandline_broker.hosts.log_dirs import PASSING
from strandline_broker.hosts.producer_loading import load_producers
from strandline_broker.hosts.replica_configs import log_config
from strandline_broker.storage.gaps_marker import FirstGap
from strandline_proto.batch import BatchHeader, end_marker_epoch
from strandline_proto.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    WireError,
)
from strandline_proto.ids import Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from strandline_broker.core.leader import Effect
    from strandline_broker.core.partition_state import PartitionState
    from strandline_broker.core.replica_condition import RefusedTruncation
    from strandline_broker.core.topic_config import TopicConfig
    from strandline_broker.hosts.listener import Listener
    from strandline_broker.hosts.replica_context import ReplicaContext
    from strandline_broker.storage.log import Log
    from strandline_broker.storage.log_reader import LogRead

ACKS_ALL = -1
OFFSET_MAX = 2**63 - 1

T = TypeVar("T")


class Partition:
    def __init__(self, context: ReplicaContext, log: Log, high_watermark: int) -> None:
        self.context = context
        self.log = log
        self.key = (log.topic_id, log.partition)
        self.name = f"{log.topic}-{log.partition}"
        self.state: PartitionState | None = None
        self.leader: Leader | None = None
        self.follower: Follower | None = None
        self.gate = asyncio.Lock()
        self.topic_configs: Mapping[str, str] | None = None
        """The topic's own entries, as the controller last pushed them; None: not yet."""
        self.max_message_bytes = context.config.message_max_bytes
        self.out_of_service: str | None = None
        self.other_history: str | None = None
        self.refused: RefusedTruncation | None = None
        """The cut for which it has stopped to fetch (I-41)."""
        self.healing = False
        """It was cut before its damage, and does not hold again what the leader calls committed."""
        self.checkpointed_high_watermark = high_watermark
        """As the last process knew it; above the log's end if records have been lost since."""
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.producers = ProducerStates(context.config.producer_id_expiration_ms)
        self.replica_listeners: dict[Listener, None] = {}
        self.consumer_listeners: dict[Listener, None] = {}
        self.appends = Appends(self)
        self.deletions = Deletions(self)

    # What others ask about it

    @property
    def leader_epoch(self) -> int:
        return -1 if self.state is None else self.state.leader_epoch

    @property
    def follower_epoch(self) -> int:
        return self.leader_epoch if self.follower is None else self.follower.leader_epoch

    def check_leader(self, current_leader_epoch: int | None) -> Leader:
        """The leader machine, if this replica leads in the epoch that the caller believes in.

        Order: epoch, then leadership (I-33).
        """
        if self.out_of_service is not None:
            raise KafkaStorageError(
                f"{self.name} on broker {self.context.me}: {self.out_of_service}"
            )
        if current_leader_epoch is not None and current_leader_epoch >= 0:
            check_leader_epoch(current_leader_epoch, self.leader_epoch, where=self.name)
        if self.leader is None:
            raise NotLeaderOrFollower(
                f"broker {self.context.me} does not lead {self.name}"
                f" (leader epoch {self.leader_epoch})"
            )
        return self.leader

    def committed_end(self, leader: Leader) -> int:
        """The end offset for clients: not before it reaches the epoch's start (I-11)."""
        if not leader.end_offset_known:
            raise OffsetNotAvailable(
                f"{self.name}: high watermark {leader.high_watermark} is below the start"
                f" {leader.epoch_start} of leader epoch {leader.leader_epoch}; try again soon"
            )
        return leader.high_watermark

    def describe_isr(self) -> str:
        if self.state is None or self.leader is None:
            return f"{self.name} is not led by broker {self.context.me}"
        isr = sorted(m.broker_id for m in self.leader.isr)
        return f"{self.name} has ISR {isr}, needs {self.state.eff_min_insync}"

    def configure(self, config: TopicConfig) -> None:
        """Go by this configuration from here on."""
        self.log.configure(log_config(config))
        self.max_message_bytes = config.max_message_bytes

    # Roles

    def stop_role(self, why: str) -> None:
        """Serve nothing from here on; what waits learns that its fate is unknown (P-25)."""
        led = self.leader is not None
        self.leader = None
        self.follower = None
        error = NotLeaderOrFollower(f"{self.name}: {why}; the records may still be committed")
        self.appends.fail_all(error)
        self.deletions.on_news()
        if led:
            for observer in self.context.observers:
                observer.resigned(self)
        self.tell(self.replica_listeners)
        self.tell(self.consumer_listeners)

    def lead(self, state: PartitionState) -> None:
        """Publish leadership of a new epoch, whose start is durable by now (I-46)."""
        context = self.context
        self.leader = Leader(
            context.me,
            context.controller.broker_epoch(),
            state,
            log_end_offset=Offset(self.log.log_end_offset),
            log_start_offset=Offset(self.log.log_start_offset),
            high_watermark=Offset(self.high_watermark),
            durable_offset=Offset(self.log.durable_offset),
            eligible=context.eligibility.brokers,
            lag_ms_max=context.config.replica_lag_time_max_ms,
            flush_always=context.flush_always,
            now_ms=context.now_ms(),
        )
        self.state = state
        context.truncations.release(self, "it leads")
        context.losses.on_lead(self, state)
        for observer in context.observers:
            observer.elected(self, state.leader_epoch, self.leader.epoch_start)
        self.carry_out(self.leader.on_tick(context.now_ms()))
        if context.flush_always:
            context.flusher.request(self.log)
        self.tell(self.replica_listeners)
        self.tell(self.consumer_listeners)

    async def follow(self, state: PartitionState) -> None:
        """Publish the role of a follower (of nobody, while there is no leader)."""
        context, log = self.context, self.log
        follower = Follower(
            state,
            truncate_to_high_watermark=context.truncate_to_high_watermark,
            refuses_truncation=context.truncations.still_refuses(self, state),
        )
        for effect in follower.on_become_follower(
            log_end_offset=Offset(log.log_end_offset), high_watermark=Offset(self.high_watermark)
        ):
            assert isinstance(effect, TruncateTo), effect
            await self.truncate(effect.offset, alarming=effect.below_high_watermark)
        if context.flush_always:
            # It fetches from its log end, which it thereby calls durable (P-75).
            await context.flusher.flushed(log)
        self.state = state
        self.follower = follower

    def update(self, state: PartitionState) -> None:
        """A newer partition epoch of the same leader epoch (I-34)."""
        self.state = state
        if self.leader is not None:
            self.carry_out(self.leader.on_state(state, self.context.now_ms()))
        elif self.follower is not None:
            self.follower.on_state(state)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        raised = False
        for effect in effects:
            if isinstance(effect, HighWatermarkRaised):
                assert effect.to >= self.high_watermark or not raised, (effect, self.high_watermark)
                self.high_watermark = effect.to
                raised = True
            elif isinstance(effect, ProposeIsr):
                self.context.controller.propose_isr(self, effect)
        if raised:
            self.appends.on_committed(self.high_watermark)
            for observer in self.context.observers:
                observer.committed(self, self.high_watermark)
            self.tell(self.consumer_listeners)
            for listener in self.replica_listeners:
                listener.on_watermark(self)

    # Following

    async def append_from_leader(
        self, records: bytes, *, leader_epoch: int, leader_high_watermark: int
    ) -> None:
        """Append what the leader sent; raises CorruptMessage, or KafkaStorageError on a full disk.

        Batches of a new epoch need the epoch file first, durably (I-47): until the log has reached
        the leader's epoch, appends go through the disk pool. So does the first with a gap.
        """
        log, appended = self.log, list[BatchHeader]()
        is_compacted = log.gaps.expected or "compact" in log.config.cleanup_policy
        now_ms = self.context.wall_ms()
        gaps_below = OFFSET_MAX if is_compacted else leader_high_watermark

        def append() -> None:
            appended.extend(
                log.append_as_follower(
                    records, leader_epoch=leader_epoch, now_ms=now_ms, gaps_below=gaps_below
                )
            )

        try:
            if log.leader_epochs.latest() != leader_epoch:
                await self.in_disk_pool(append)
            else:
                append()
        except FirstGap:
            await self.in_disk_pool(log.gaps.expect)
            await self.in_disk_pool(append)
        except OSError as error:
            raise self.refuse_write(error) from error
        finally:  # a fetch that is cancelled meanwhile has appended all the same (I-58)
            self._note_producers(records, appended)
        flush_if_many(self.context, log)

    def _note_producers(self, records: bytes, headers: list[BatchHeader]) -> None:
        now_ms = self.context.now_ms()
        at = 0
        for header in headers:
            if header.producer_id >= 0:
                marker = end_marker_epoch(records, at, header)
                self.producers.on_append(header, now_ms, marker)
            at += header.size

    async def cut(self, effect: TruncateTo) -> None:
        """Truncate where the leader's history parts from ours, and tell what may be lost."""
        self.context.losses.on_cut(self, effect.offset, in_recovery=effect.in_recovery)
        await self.truncate(effect.offset, alarming=effect.below_high_watermark)

    async def drop(self, effect: TruncateFully) -> None:
        """Begin anew where the leader's history begins, and tell what may be lost."""
        start = max(effect.start_at, self.log.log_start_offset)
        self.context.losses.on_cut(self, start, in_recovery=effect.in_recovery)
        await self.restart_at(effect.start_at)

    async def truncate(self, offset: int, *, alarming: bool = False) -> None:
        """Drop everything from `offset` on: log, epochs, producer state together (I-47, I-58)."""
        log = self.log
        if alarming:
            self.context.runtime.log.warning(
                "truncating below the high watermark",
                partition=self.name,
                to=offset,
                high_watermark=self.high_watermark,
                log_end_offset=log.log_end_offset,
            )
        known = max(self.high_watermark, self.checkpointed_high_watermark)
        await self._shorten(partial(log.truncate_to, offset, high_watermark=known))

    async def restart_at(self, offset: int) -> None:
        """Drop the whole log; the leader's begins past our end (I-45)."""
        await self._shorten(partial(self.log.truncate_fully_and_start_at, offset))

    async def _shorten(self, work: Callable[[], None]) -> None:
        log = self.log
        log.keep_producers(None)
        await self.context.upkeep.cleaner.abandon(self)
        try:
            await self.in_disk_pool(work)
        finally:  # a fetch that is cancelled meanwhile has cut it all the same (I-6)
            end = min(self.high_watermark, log.log_end_offset)
            self.high_watermark = max(end, log.log_start_offset)
        await self.rebuild_producers()

    async def rebuild_producers(self) -> None:
        """Producer state is a function of the log's prefix (I-58). From here on the log keeps it in
        snapshots.
        """
        context = self.context
        self.take_producers(
            await self.in_disk_pool(
                partial(
                    load_producers,
                    self.log,
                    expiration_ms=context.config.producer_id_expiration_ms,
                    now_ms=context.now_ms(),
                    wall_ms=context.wall_ms(),
                )
            )
        )

    def take_producers(self, producers: ProducerStates) -> None:
        """What the producers have appended up to the log's end."""
        self.producers = producers
        self.log.keep_producers(producers.entries)

    async def in_disk_pool(self, work: Callable[[], T]) -> T:
        """Run blocking work on this replica; the caller holds the gate.

        Raises KafkaStorageError; unless the disk is full, its directory is out of service (P-24).
        """
        assert self.gate.locked(), self.name
        try:
            return await self.context.in_disk_pool(work, self.log)
        except OSError as error:
            raise self.refuse_write(error) from error

    def hear_high_watermark(self, to: int) -> None:
        """Take the leader's as far as our log reaches; it falls only with a truncation (I-13)."""
        self.high_watermark = follower_high_watermark(
            self.high_watermark,
            log_start_offset=self.log.log_start_offset,
            leader_high_watermark=to,
            log_end_offset=self.log.log_end_offset,
        )
        if self.healing and to <= self.log.log_end_offset:
            self.healing = False
            self.context.controller.report_offline()

    def raise_log_start(self, to: int) -> bool:
        """Let the log begin at `to`, which is committed, and tell followers; False if it does.

        It counts in memory from here on; `LogStarts` makes it durable.
        """
        assert to <= self.high_watermark, (self.name, to, self.high_watermark)
        if not self.log.raise_log_start(to):
            return False
        if self.leader is not None:
            self.carry_out(self.leader.on_log_start(Offset(to)))
            self.tell(self.replica_listeners)
        return True

    def hear_log_start(self, to: int, on_durable: Callable[[], None]) -> None:
        """Follow the leader's log start, within our own high watermark (I-74)."""
        start = follower_log_start(
            self.log.log_start_offset, leader_log_start=to, high_watermark=self.high_watermark
        )
        if self.raise_log_start(start):
            upkeep = self.context.upkeep
            upkeep.retention.request(self)
            upkeep.log_starts.persist(self.log, on_durable)

    def refuse_write(self, error: OSError) -> WireError:
        """What a failed write means: a full disk refuses the batch, anything else takes the
        directory out of service.

        The log was cut back to where it was, so nothing of the batch is there.
        """
        where = f"{self.name} at offset {self.log.log_end_offset} on broker {self.context.me}"
        return self.context.dirs.refuse_write(self.log, error, where)

    def read_log(self, start: int, *, max_bytes: int, limit: int, checked: bool = False) -> LogRead:
        """Read the log; KafkaStorageError for damaged offsets (I-7). A disk that cannot be read
        takes the replica out of service. `checked` sees that each batch matches its CRC, for bytes
        that are cold.
        """
        try:
            return self.log.read(start, max_bytes=max_bytes, limit=limit, checked=checked)
        except OSError as error:
            if error.errno in PASSING:
                raise KafkaStorageError(f"{self.name}: {error}; try again") from error
            self.out_of_service = str(error)
            self.context.runtime.log.error("replica out of service", reason=str(error))
            raise KafkaStorageError(self.out_of_service) from error

    # News

    def on_flushed(self) -> None:
        self.appends.on_durable(self.log.durable_offset)
        if self.leader is not None:
            self.carry_out(self.leader.on_durable(Offset(self.log.durable_offset)))

    def on_tick(self, now_ms: int) -> None:
        self.deletions.on_news()  # a member that left the ISR is not waited for
        if self.leader is not None:
            self.carry_out(self.leader.on_tick(now_ms))

    def tell(self, listeners: dict[Listener, None]) -> None:
        for listener in listeners:
            listener.on_news(self)
