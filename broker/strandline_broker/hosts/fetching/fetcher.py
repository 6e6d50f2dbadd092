"""The copying of partitions from one leader's broker: one Fetch stream for all of them.

A request names the partitions whose position changed. A second request may be sent while the first
waits at the leader, so that an added partition is fetched at once. Answers arrive in order. An
answer is applied only if the replica still has its position and leader epoch (I-42), in this order:
diverging or append, epochs, watermark, log start (I-43).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import grpc

from strandline_broker.core.replication.follower import (
    AdvanceHighWatermark,
    Append,
    Backoff,
    Discard,
    DropUntilNewEpoch,
    FetchAnswer,
    IncarnationEnded,
    RaiseLogStart,
    RefuseTruncation,
    TruncateFully,
    TruncateTo,
)
from strandline_broker.hosts.common.fetch_messages import Position
from strandline_broker.hosts.common.quiet import Quiet
from strandline_broker.hosts.common.replaced import end_replaced
from strandline_proto.errors import NONE, StaleBrokerEpoch, WireError
from strandline_proto.ids import Offset
from strandline_runtime.cancellation import deliver_cancellation
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.replication.follower import Effect, FetchPosition
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.common.fetch_messages import FetchedPartition, FetchResponse, Key
    from strandline_broker.hosts.disks.flush_schedule import FlushSchedule
    from strandline_broker.hosts.fetching.copy_throttle import FollowerThrottle
    from strandline_broker.hosts.fetching.stream import FetchStreams
    from strandline_broker.hosts.replica.following import Following
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.truncations import Truncations
    from strandline_proto.ids import BrokerId
    from strandline_runtime.runtime import Runtime

FIRST_BACKOFF_MS: Final = 10
BACKOFF_MS_MAX: Final = 1_000


@dataclass(slots=True)
class _Target:
    partition: Partition
    following: Following
    sent: FetchPosition | None = None
    sent_in: int = 0
    """Number of the request that named `sent`: earlier requests' answers are for other positions.
    """
    backoff_ms: int = FIRST_BACKOFF_MS


class Fetcher:
    """The fetcher of one broker that leads partitions which this broker follows; owned by
    `Fetchers`.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: DynamicConfig,
        leader: BrokerId,
        *,
        streams: FetchStreams,
        flushes: FlushSchedule,
        truncations: Truncations,
        copies: FollowerThrottle,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._leader = leader
        self._streams = streams
        self._flushes = flushes
        self._truncations = truncations
        self._copies = copies
        self._targets: dict[Key, _Target] = {}
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}
        self._refused: list[tuple[_Target, str]] = []
        """The refused partitions in the answer that is being carried out."""
        self._has_work = asyncio.Event()
        self._nudge = asyncio.Event()
        self._log = runtime.log.bind(leader=leader)
        self._quiet = Quiet(runtime.clock)
        """A leader that is gone is tried again each second."""
        self._quiet_refusals = Quiet(runtime.clock)

    # What to fetch

    def add(self, partition: Partition, following: Following) -> None:
        self._targets[partition.key] = _Target(partition, following)
        self._ask_at_once(partition.key)

    def remove(self, key: Key) -> None:
        if self._targets.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def _ask_at_once(self, key: Key) -> None:
        if key in self._targets:
            self._changed[key] = None
            self._has_work.set()
            self._nudge.set()

    def on_flushed(self, key: Key) -> None:
        """Name the partition in the next request: `fill` left it out until it was durable."""
        if key in self._changed:
            self._nudge.set()

    # The stream

    async def run(self) -> None:
        backoff_ms = FIRST_BACKOFF_MS
        while True:
            await self._has_work.wait()
            started_ms = monotonic_ms(self._runtime.clock)
            await self._until_broken()
            if monotonic_ms(self._runtime.clock) - started_ms > BACKOFF_MS_MAX:
                backoff_ms = FIRST_BACKOFF_MS
            if not self._targets:
                self._has_work.clear()
                continue
            await asyncio.sleep(backoff_ms * self._runtime.rng.uniform(0.5, 1.0) / 1000)
            backoff_ms = min(backoff_ms * 2, BACKOFF_MS_MAX)

    async def _until_broken(self) -> None:
        """One session, to its end: the stream broke, or there is nothing left to fetch."""
        try:
            await self._streams.run(self, self._leader)
        except* asyncio.CancelledError:
            self._stopped("the transport cancelled the stream")
        except* (grpc.aio.AioRpcError, asyncio.InvalidStateError, OSError, WireError) as broken:
            self._stopped(_reason(broken.exceptions[0]))
        deliver_cancellation()

    def _stopped(self, reason: str) -> None:
        say = self._log.info if self._quiet.is_due() else self._log.debug
        say("fetching stopped", reason=reason)

    # Requests and answers

    def begin(self) -> None:
        """Name every partition again: a new stream knows none."""
        self._changed = dict.fromkeys(self._targets)
        self._forgotten = {}

    @property
    def is_idle(self) -> bool:
        return not self._targets

    @property
    def has_changes(self) -> bool:
        return bool(self._changed or self._forgotten)

    async def nudged(self) -> None:
        """Return once something changed other than by an answer."""
        await self._nudge.wait()
        self._nudge.clear()

    def next_request(self, number: int) -> tuple[list[Key], dict[Key, Position]]:
        """The partitions that are forgotten or changed since the last request; their positions are
        remembered.
        """
        forgotten, self._forgotten = list(self._forgotten), {}
        changed, self._changed = self._changed, {}
        positions: dict[Key, Position] = {}
        for key in changed:
            target = self._targets.get(key)
            if target is None:
                continue
            log = target.partition.log
            if self._flushes.holds_back(log):
                # Another change than that flush may have triggered this request; the partition is
                # named in a later one (P-75).
                self._changed[key] = None
                continue
            if not target.following.machine.may_fetch:
                continue
            target.sent_in = number
            target.sent = target.following.machine.next_fetch(
                Offset(log.log_end_offset), log.leader_epochs.latest()
            )
            positions[key] = Position(
                current_leader_epoch=target.sent.leader_epoch,
                fetch_offset=target.sent.fetch_offset,
                last_fetched_epoch=target.sent.last_fetched_epoch,
                log_start_offset=log.state.durable_start,
                max_bytes=self._config.current.replica_fetch_max_bytes,
            )
        return forgotten, positions

    async def apply(self, response: FetchResponse, number: int) -> None:
        """Carry out the answer to request `number`."""
        self._check(response)
        appended: list[Partition] = []
        try:
            for key, result in response.partitions.items():
                target = self._targets.get(key)
                if target is None or target.sent_in > number:
                    continue
                if await self._apply_one(target, result):
                    appended.append(target.partition)
        finally:
            self._ask_again_later()
        for partition in appended:
            await self._flushes.before_fetch(partition.log)
        for partition in appended:
            target = self._targets.get(partition.key)
            if target is not None:
                self._go_on(target)

    def _check(self, response: FetchResponse) -> None:
        if isinstance(response.error, StaleBrokerEpoch):
            end_replaced(self._runtime, self._config.current.node_id, str(response.error))
        if response.error is not None:
            raise response.error

    async def _apply_one(self, target: _Target, result: FetchedPartition) -> bool:
        """True if the position may have moved, so that the leader must be told."""
        sent = target.sent
        if sent is None or target.partition.role is not target.following:
            return False  # a role change is under way, and fetches again
        async with target.partition.gate:
            # A cleaning may have held the gate, or a role change begun meanwhile.
            if target.sent is not sent or not self._is_current(target):
                return False
            return await self._carry_out(target, result, self._effects_of(target, sent, result))

    def _effects_of(
        self, target: _Target, sent: FetchPosition, result: FetchedPartition
    ) -> Iterable[Effect]:
        answer = FetchAnswer(
            error_code=NONE if result.error is None else result.error.code,
            high_watermark=result.offsets.high_watermark,
            log_start_offset=result.offsets.log_start,
            diverging=result.diverging,
            has_records=len(result.records) > 0,
        )
        log = target.partition.log
        return target.following.machine.on_answer(
            sent,
            answer,
            log_start_offset=Offset(log.log_start_offset),
            log_end_offset=Offset(log.log_end_offset),
            high_watermark=Offset(target.partition.high_watermark),
            history=log.leader_epochs,
        )

    async def _carry_out(
        self, target: _Target, result: FetchedPartition, effects: Iterable[Effect]
    ) -> bool:
        moved = False
        for effect in effects:
            match effect:
                case TruncateTo() | TruncateFully() | RefuseTruncation() | Append():
                    if not await self._change_log(target, result, effect):
                        return False
                    moved = True
                case AdvanceHighWatermark(to):
                    target.following.on_high_watermark(to)
                case RaiseLogStart(to):
                    key = target.partition.key
                    target.following.on_log_start(to, partial(self._ask_at_once, key))
                case Backoff(reason):
                    self._back_off(target, reason)
                    return False
                case DropUntilNewEpoch():
                    self.remove(target.partition.key)
                    return False
                case IncarnationEnded(reason):
                    end_replaced(self._runtime, self._config.current.node_id, reason)
                case Discard():
                    return True
        target.backoff_ms = FIRST_BACKOFF_MS
        return moved

    async def _change_log(
        self,
        target: _Target,
        result: FetchedPartition,
        effect: TruncateTo | TruncateFully | RefuseTruncation | Append,
    ) -> bool:
        """False if nothing that follows may be done: it failed, or the role changed meanwhile."""
        partition = target.partition
        try:
            match effect:
                case TruncateTo():
                    await target.following.cut(effect)
                case TruncateFully():
                    await target.following.drop(effect)
                case RefuseTruncation(offset):
                    self.remove(partition.key)
                    self._truncations.on_refused(partition, offset)
                case Append():
                    await target.following.append(
                        result.records, leader_high_watermark=result.high_watermark
                    )
                    self._copies.on_copied(partition, len(result.records))
                    partition.counters.replication_bytes_in += len(result.records)
        except WireError as error:  # the stream goes on for the partitions that are sound
            self._back_off(target, str(error))
            return False
        return self._is_current(target)

    def _is_current(self, target: _Target) -> bool:
        """True if the partition still follows in this target's epoch: checked after each await."""
        partition = target.partition
        return self._targets.get(partition.key) is target and partition.role is target.following

    def _go_on(self, target: _Target) -> None:
        """Ask from the new position, as soon as the throttle of copies lets us."""
        key, copies = target.partition.key, self._copies
        if copies.wait_s(target.partition) == 0:
            self._changed[key] = None
            return
        # The leader would send the same records again from its known position.
        self._forgotten[key] = None
        self._changed.pop(key, None)
        copies.when_admitted(
            target.partition,
            partial(self._ask_at_once, key),
            is_wanted=lambda: self._targets.get(key) is target,
        )

    def _back_off(self, target: _Target, reason: str) -> None:
        """Leave the partition out for a while; the others of the stream go on."""
        key = target.partition.key
        self._forgotten[key] = None
        self._changed.pop(key, None)
        target.sent = None  # answers about it are ignored until the next request
        self._refused.append((target, reason))

    def _ask_again_later(self) -> None:
        """Schedule one later request for all refused partitions. A leader that does not know its
        role yet may refuse thousands at once. One log line reports them if that lasts about a
        second.
        """
        if not self._refused:
            return
        refused, self._refused = self._refused, []
        self._complain([each for each in refused if each[0].backoff_ms == BACKOFF_MS_MAX])
        delays: dict[int, list[_Target]] = {}
        for target, _ in refused:
            delays.setdefault(target.backoff_ms, []).append(target)
            target.backoff_ms = min(target.backoff_ms * 2, BACKOFF_MS_MAX)
        loop = asyncio.get_running_loop()
        for delay_ms, targets in delays.items():
            loop.call_later(delay_ms / 1000, self._ask_again, targets)

    def _complain(self, refused: list[tuple[_Target, str]]) -> None:
        if refused:
            first, reason = refused[0]
            name, count = first.partition.name, len(refused)
            say = self._log.info if self._quiet_refusals.is_due() else self._log.debug
            say("fetch refused", partitions=count, partition=name, reason=reason)

    def _ask_again(self, targets: list[_Target]) -> None:
        for target in targets:
            if self._targets.get(target.partition.key) is target:
                self._ask_at_once(target.partition.key)


def _reason(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return f"{type(error).__name__}: {error}"
