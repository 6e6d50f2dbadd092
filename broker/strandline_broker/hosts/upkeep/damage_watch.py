"""The detection of damaged ranges in the logs of this broker, and their healing from another
replica.

A reader, the scrub or the start finds a range, and the log keeps it. A check twice a second of the
suspect replicas finds what is new. The next heartbeat reports it to the controller. The controller
removes the replica from the ISR if another sound member is there, or from the ELR beside a sound
leader, and moves its leadership.

Only then may the replica lose records that it acknowledged: it truncates its log before the damage
and copies the rest from the leader (I-15, I-41). Two facts must hold at one moment. The controller
has answered a heartbeat that named the damage. A push of that age or later shows another leader,
and neither an ISR nor an ELR with this replica.

A replica is reported until it holds again all that the leader calls committed, and all that it had
in common with the leader. A fetch that was sent before the truncation may reach the leader after
it. An ISR proposal that it causes may reach the controller even later. That proposal is refused as
long as the replica is reported (I-24), and is true once the replica holds again what that fetch
reported.

A replica that is the last in its ISR keeps its records. So does one whose leader lacks a range
itself: the damaged copies may be the only ones.
"""

from __future__ import annotations

import asyncio
import errno
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.common.cuts import CutReason
from strandline_broker.storage.log.segment_check import check_segment
from strandline_proto.errors import WireError
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from concurrent.futures import Executor

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.cuts import Cuts
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.fetching.fetchers import Fetchers
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.suspects import Suspects
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.damaged_ranges import DamagedRange
    from strandline_proto.ids import BrokerId
    from strandline_runtime.runtime import Runtime

    Key = tuple[bytes, int]

LOOK_MS: Final = 500


def condition_of(partition: Partition) -> ReplicaCondition | None:
    """The reason why the replica does not count as others do; None if it does, as far as its disk
    has room.
    """
    log = partition.log
    if partition.unusable is not None:
        return ReplicaCondition.OUT_OF_SERVICE
    if partition.healing or log.damaged_ranges.above(log.log_start_offset):
        return ReplicaCondition.DAMAGED
    if partition.refused is not None:
        return ReplicaCondition.TRUNCATION_REFUSED
    return None


class DamageWatch:
    """Owned by the replica manager, whose task group runs `run`."""

    def __init__(
        self,
        runtime: Runtime,
        me: BrokerId,
        dirs: LogDirs,
        metadata: MetadataCache,
        controller: ToController,
        *,
        suspects: Suspects,
        scrub: Executor,
        fetchers: Fetchers,
        cuts: Cuts,
    ) -> None:
        from prometheus_client import Counter, Gauge

        self._me = me
        self._dirs = dirs
        self._metadata = metadata
        self._controller = controller
        self._suspects = suspects
        self._scrub = scrub
        self._fetchers = fetchers
        self._cuts = cuts
        self._log = runtime.log
        self._seen: dict[Partition, object] = {}
        self._out: set[Partition] = set()
        registry = runtime.metrics
        self._found = Counter(
            "strandline_damaged_ranges_found", "Damaged ranges of logs that were found.",
            registry=registry,
        )  # fmt: skip
        self._healed = Counter(
            "strandline_damaged_replicas_healed",
            "Replicas that were cut before their damage, to copy it from the leader.",
            registry=registry,
        )
        self._damaged = Gauge(
            "strandline_damaged_replicas", "Replicas that lack a range now.", registry=registry
        )

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            await self.look()

    async def look(self) -> None:
        """Find new damage, and heal replicas that may be healed."""
        suspects = self._suspects.all()
        self._see_unreadable(suspects)
        damaged = [p for p in suspects if p.log.damaged_ranges.entries or p in self._seen]
        for partition in damaged:
            is_known = self._seen.get(partition, ()) is partition.log.damaged_ranges.entries
            if not is_known or partition.is_unsure_of_transactions:
                await self._take_note(partition)
            if self.may_heal(partition) and not partition.gate.locked():
                await self._heal(partition)
        for partition in suspects:
            if self._may_replay(partition) and not partition.gate.locked():
                await self._replay(partition)
        self._damaged.set(sum(bool(p.log.damaged_ranges.entries) for p in damaged))
        for partition in suspects:
            self._suspects.settle(partition, self._is_wrong)

    def _is_wrong(self, partition: Partition) -> bool:
        """True if the replica must be checked again, or reported."""
        log = partition.log
        is_noted = log.replay_lacks or len(log.damaged_ranges.entries) > 0
        return is_noted or partition in self._seen or condition_of(partition) is not None

    def _see_unreadable(self, suspects: list[Partition]) -> None:
        """A read has failed, on whichever thread: the replica serves nothing, nor do those that lie
        beside it, if there is another directory to go on with.
        """
        for partition in suspects:
            if partition.out_of_service is None or partition in self._out:
                continue
            self._out.add(partition)
            unreadable = OSError(errno.EIO, partition.out_of_service)
            self._dirs.suffers(self._dirs.of(partition.log), unreadable)
            partition.stop_role(partition.out_of_service)
            self._controller.report_offline()

    async def _take_note(self, partition: Partition) -> None:
        log = partition.log
        self._controller.report_offline()
        entries = await self._look_closely(log)
        await self._done(self._dirs.in_disk_pool(log, partial(_save_ranges, log)))
        known = self._seen.get(partition, ())
        if entries:
            self._seen[partition] = entries
        else:
            self._seen.pop(partition, None)
        assert isinstance(known, tuple)
        for found in entries:
            if found not in known:
                self._found.inc()
                self._log.error(
                    "damaged",
                    partition=partition.name,
                    offsets=f"{found.start}-{found.end - 1}",
                    segment=found.segment,
                    position=found.position,
                    why=found.why,
                    next=self._what_next(partition),
                )

    async def _look_closely(self, log: Log) -> tuple[DamagedRange, ...]:
        """Find the exact damage: a reader takes all bytes after the first bad one for bad. What
        this returns is known for certain; later findings are news for the next check.
        """
        ranges, unread = log.damaged_ranges, set[int]()
        while True:
            entries = ranges.entries
            segment = min(ranges.unsure - unread, default=None)
            if segment is None:
                return entries
            looking = asyncio.get_running_loop().run_in_executor(
                self._scrub, partial(check_segment, log, segment)
            )
            await self._done(looking)
            if segment in ranges.unsure:
                unread.add(segment)

    async def _done(self, work: Awaitable[object]) -> None:
        try:
            await work
        except (OSError, WireError) as error:
            self._log.warning("damage not looked at closely", reason=str(error))

    def _what_next(self, partition: Partition) -> str:
        state = partition.state
        if state is not None and [m.broker_id for m in state.isr] == [self._me]:
            return (
                "no other replica is in sync: these offsets are lost unless another disk has them"
            )
        return "they are copied from the leader as soon as this replica is out of the ISR"

    def may_heal(self, partition: Partition) -> bool:
        state, log = partition.state, partition.log
        if not log.damaged_ranges.above(log.log_start_offset):
            return False
        if partition.out_of_service is not None:
            return False
        follower = partition.follower
        if state is None or follower is None or not follower.may_fetch:
            return False
        if not follower.is_answered:
            return False  # an earlier fetch may still raise the end that the leader knows
        if self._me in state.elr or any(m.broker_id == self._me for m in state.isr):
            return False
        known_at = self._controller.offline_known_at(partition.key)
        if known_at is None or self._metadata.applied_offset + 1 < known_at:
            return False
        told = self._metadata.view.partition(TopicId(partition.key[0]), partition.key[1])
        return told is not None and state.leader not in told.offline_replicas

    def _may_replay(self, partition: Partition) -> bool:
        """True if batches skipped by the load of producer state are sound after all."""
        log = partition.log
        if not log.replay_lacks or partition.out_of_service is not None:
            return False
        return log.damaged is None and not log.damaged_ranges.entries

    async def _replay(self, partition: Partition) -> None:
        async with partition.gate:
            if not self._may_replay(partition):
                return  # as in `_heal`
            # The replay may take seconds, and the leader's answer waits for the gates of all its
            # partitions.
            self._fetchers.forget(partition.key)
            try:
                await partition.reload_producers()
            except WireError as error:
                self._log.warning("producers not read", partition=partition.name, reason=str(error))
            self._fetchers.fetch(partition)

    async def _heal(self, partition: Partition) -> None:
        async with partition.gate:
            # A free gate may have been promised to an earlier waiter: a truncation, a new log start
            # or another role then came first.
            if not self.may_heal(partition):
                return
            log = partition.log
            start = log.damaged_ranges.above(log.log_start_offset)[0].start
            self._log.warning(
                "healing: the log is cut before its damage and copied from the leader",
                partition=partition.name,
                leader=partition.follower.leader if partition.follower is not None else -1,
                to=max(start, log.log_start_offset),
                log_end_offset=log.log_end_offset,
                high_watermark=partition.high_watermark,
            )
            noting = self._cuts.noting(
                log,
                partition.high_watermark,
                CutReason.DAMAGE,
                leader_epoch=partition.leader_epoch,
                is_sound=False,
            )
            try:
                with noting:
                    await partition.heal_from(max(start, log.log_start_offset))
            except WireError as error:
                self._log.error("not healed", partition=partition.name, reason=str(error))
                return
        self._healed.inc()
        self._seen.pop(partition, None)
        self._fetchers.fetch(partition)


def _save_ranges(log: Log) -> None:
    """Save the damaged ranges. A deleted log's path may hold another log of its name (I-36)."""
    if not log.deleted:
        log.damaged_ranges.save()
