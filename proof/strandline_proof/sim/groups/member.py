"""A member of a group, as an application writes one: it polls, works, commits, and records what it
was handed.

Its machine causes everything that is not the library's own doing, such as a crash.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline import Consumer, ConsumerRebalanceListener
from strandline.errors import (
    FencedInstanceId,
    KafkaStorageError,
    LogTruncated,
    OperationTimedOut,
    StrandlineError,
    UnreleasedInstanceId,
    describe,
)
from strandline.group_types import OffsetAndMetadata
from strandline_proof.sim.groups.scene import life_of
from strandline_proof.sim.topology.groups import BUSY, MANUAL, PATTERN, STATIC, group_name
from strandline_proof.sim.topology.topology import TOPIC
from strandline_proof.sim.workload import group_history as told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline.types import ConsumerRecord, TopicPartition
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_runtime.runtime import Runtime

REQUEST_MS: Final = 1000
RETRY_S: Final = 0.2
POLL_MS: Final = 300
AUTO_COMMIT_MS: Final = 700
POLL_INTERVAL_MS: Final = 60_000
BUSY_INTERVAL_MS: Final = 1200
PATTERN_TEXT: Final = "[s-t]"
COMMIT_AFTER: Final = (1, 2, 5)
"""Polls with records between two commits of a member that commits by itself."""
WORK_S: Final = (0.0, 0.05, 0.2, 0.4)
"""The time that a member works on a poll's records."""
FETCH_BYTES: Final = 400
FETCH_WAIT_MS: Final = 300
"""The fetch wait: members need not receive each record by itself, which would only take time."""


class Member(ConsumerRebalanceListener):
    """One life of a member."""

    def __init__(self, world: World, node: Node, group: int, number: int) -> None:
        spec = world.topology.groups[group]
        self.group = group
        self.owned: dict[TopicPartition, None] = {}
        """The partitions that the application was told it owns."""
        self.trouble = "not started"
        """The reason why it does not consume at the moment; empty if it does."""
        self.busy_s = 0.0
        """Extra duration of its next work."""
        self._world = world
        self._groups = world.groups
        self._who = life_of(node)
        self._habits = spec.members[number].split()
        self._assignor = spec.assignor
        self._instance = f"{node.name}" if STATIC in self._habits else None
        self._consumer: Consumer | None = None
        self._known: tuple[str, int] | None = None
        """The membership that was written down last."""
        self.positions: dict[TopicPartition, int] = {}
        """Offsets after the last record that a poll returned, of what is owned."""
        self._given: dict[TopicPartition, int] = {}
        """Of these, the positions not yet handed to a commit."""
        self._polls = 0
        self._rng: Any = None

    @property
    def _commits_by_hand(self) -> bool:
        return MANUAL in self._habits

    def _note(self, event: told.GroupEvent) -> None:
        self._groups.history.add(self._who, event)

    async def run(self, runtime: Runtime, stop: asyncio.Event) -> None:
        """Runs until stopped; a consumer that ended for a passing reason is replaced by a
        new one.
        """
        self._rng = runtime.rng
        while not stop.is_set():
            try:
                consumer = self._consumer = self._open(runtime)
                async with consumer:
                    self.trouble = ""
                    await self._consume(consumer, stop)
                self._note(told.Left())
            except StrandlineError as error:
                if not self._passes(error):
                    raise
                self.trouble = describe(error)
                self._groups.sometimes[f"member began again: {type(error).__name__}"] += 1
                await asyncio.sleep(RETRY_S)

    def _passes(self, error: StrandlineError) -> bool:
        """True if the error passes. If the group's log has lost records, an instance id may still
        belong to its former member.
        """
        if isinstance(error, FencedInstanceId):
            return not self._groups.is_judged(group_name(self.group))
        return isinstance(error, OperationTimedOut | UnreleasedInstanceId)

    def _open(self, runtime: Runtime) -> Consumer:
        self._known = None
        return Consumer(
            bootstrap_servers=self._world.topology.bootstrap,
            group_id=group_name(self.group),
            group_instance_id=self._instance,
            group_remote_assignor=self._assignor,
            auto_offset_reset="earliest",
            enable_auto_commit=not self._commits_by_hand,
            auto_commit_interval_ms=AUTO_COMMIT_MS,
            max_poll_interval_ms=BUSY_INTERVAL_MS if BUSY in self._habits else POLL_INTERVAL_MS,
            request_timeout_ms=REQUEST_MS,
            connect_timeout_ms=REQUEST_MS,
            metadata_max_age_ms=self._world.metadata_max_age_ms,
            fetch_min_bytes=min(FETCH_BYTES, self._world.topology.fetch_bytes),
            fetch_max_wait_ms=FETCH_WAIT_MS,
            max_partition_fetch_bytes=self._world.topology.fetch_bytes,
            runtime=runtime,
        )

    async def _consume(self, consumer: Consumer, stop: asyncio.Event) -> None:
        if PATTERN in self._habits:
            consumer.subscribe(pattern=PATTERN_TEXT, listener=self)
        else:
            consumer.subscribe([TOPIC], listener=self)
        commit_after = self._rng.choice(COMMIT_AFTER)
        while not stop.is_set():
            self._note_auto_commit()
            try:
                found = await consumer.getmany(timeout_ms=POLL_MS)
            except LogTruncated as error:
                consumer.seek(error.partition, error.divergent_offset or 0)
                continue
            except KafkaStorageError:
                # No replica serves that position: other partitions can be read, and it may be
                # healed.
                self._groups.sometimes["member met what no replica serves"] += 1
                await asyncio.sleep(RETRY_S)
                continue
            self._note_joined()
            self._on_given(found)
            if not found:
                continue
            await asyncio.sleep(self._work_s() + self.busy_s)
            self.busy_s = 0.0
            self._polls += 1
            if self._commits_by_hand and self._polls % commit_after == 0:
                await self._commit(consumer, self._given)

    def _work_s(self) -> float:
        if self._groups.catches_up:
            return 0.0
        work_s: float = self._rng.choice(WORK_S)
        return work_s

    def _on_given(self, found: Mapping[TopicPartition, list[ConsumerRecord]]) -> None:
        for tp, records in found.items():
            offsets = [record.offset for record in records]
            self._groups.on_delivered(self._who, self.group, tp, offsets)
            self._given[tp] = self.positions[tp] = offsets[-1] + 1

    # The group's messages.

    def _note_joined(self) -> None:
        """Records a membership that was not written down yet."""
        if self._consumer is None:
            return
        known = self._consumer.group_metadata()
        if known.generation_id < 0:
            self._known = None
        elif self._known is None:
            self._known = known.member_id, known.generation_id
            self._note(
                told.Joined(known.group_id, known.member_id, known.generation_id, self._instance)
            )

    @property
    def _epoch(self) -> int:
        return -1 if self._consumer is None else self._consumer.group_metadata().generation_id

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        self._note_joined()
        self._note(told.Assigned(assigned, self._epoch))
        self._groups.on_rebalance()
        self.owned |= dict.fromkeys(sorted(assigned))

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        self._groups.on_rebalance()
        if self._commits_by_hand and self._consumer is not None:
            given = {tp: at for tp, at in self._given.items() if tp in revoked}
            await self._commit(self._consumer, given)
        self._forget(revoked)
        self._note(told.Revoked(revoked, self._epoch))

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        self._forget(lost)
        self._note(told.Lost(lost, self._epoch))
        self._known = None
        self._groups.sometimes["member lost its partitions"] += 1

    def _forget(self, partitions: frozenset[TopicPartition]) -> None:
        for tp in partitions:
            self.owned.pop(tp, None)
            self._given.pop(tp, None)
            self.positions.pop(tp, None)

    # Commits.

    def _note_auto_commit(self) -> None:
        """The library commits everything handed over by now, once a poll begins."""
        if self._given and not self._commits_by_hand:
            self._note(
                self._asked(self._groups.history.new_operation(), self._given, "", by_itself=True)
            )
            self._given = {}

    def _asked(
        self,
        operation: int,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        *,
        by_itself: bool = False,
    ) -> told.CommitAsked:
        assert self._consumer is not None
        known = self._consumer.group_metadata()
        return told.CommitAsked(
            operation,
            {tp: told.Committed(at, -1, metadata) for tp, at in offsets.items()},
            known.member_id,
            known.generation_id,
            by_itself,
        )

    async def _commit(self, consumer: Consumer, offsets: Mapping[TopicPartition, int]) -> None:
        offsets = {tp: at for tp, at in offsets.items() if tp in self.owned}
        if not offsets:
            return
        operation = self._groups.history.new_operation()
        metadata = f"{operation}"
        self._note(self._asked(operation, offsets, metadata))
        for tp in offsets:
            self._given.pop(tp, None)
        try:
            await consumer.commit(
                {tp: OffsetAndMetadata(at, metadata) for tp, at in offsets.items()}
            )
        except StrandlineError as error:
            # Of several partitions some may have been committed.
            unknown = error.may_have_been_written or len(offsets) > 1
            kind = told.CommitUnknown if unknown else told.CommitRefused
            self._note(kind(operation, describe(error)))
        else:
            self._note(told.CommitAcknowledged(operation))
            self._groups.sometimes["member committed"] += 1


async def run_member(
    world: World, node: Node, runtime: Runtime, stop: asyncio.Event, group: int, number: int
) -> None:
    node.process = member = Member(world, node, group, number)
    await member.run(runtime, stop)
