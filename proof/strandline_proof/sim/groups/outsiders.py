"""Users of groups that are no members: a consumer that commits for partitions which it has assigned
to itself, and an administrator.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline import Admin, Consumer
from strandline.errors import LogTruncated, OperationTimedOut, StrandlineError, describe
from strandline.group_types import OffsetAndMetadata
from strandline.types import TopicPartition
from strandline_proof.sim.groups.member import FETCH_BYTES, FETCH_WAIT_MS
from strandline_proof.sim.groups.scene import life_of
from strandline_proof.sim.topology.groups import group_name
from strandline_proof.sim.topology.topology import TOPIC
from strandline_proof.sim.workload import group_history as told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_runtime.runtime import Runtime

SIMPLE: Final = "simple"
"""The group of the committer: it never has members."""
REQUEST_MS: Final = 1000
RETRY_S: Final = 0.2
POLL_MS: Final = 300
PAUSE_S: Final = (0.1, 0.5, 1.0)
"""Pause between two commands of the administrator, and between two commits."""
ROUNDS: Final = (2, 6)
"""Polls of one consumer of the committer, before another takes its place."""


class Committer:
    """A reader of one partition; every new consumer begins where the group's commits say."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._groups = world.groups
        self._who = life_of(node)
        self._rng: Any = None
        self._partition = TopicPartition(TOPIC, 0)

    async def run(self, runtime: Runtime, stop: asyncio.Event) -> None:
        self._rng = runtime.rng
        while not stop.is_set():
            try:
                async with Consumer(
                    bootstrap_servers=self._world.topology.bootstrap,
                    group_id=SIMPLE,
                    auto_offset_reset="earliest",
                    enable_auto_commit=False,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    fetch_min_bytes=min(FETCH_BYTES, self._world.topology.fetch_bytes),
                    fetch_max_wait_ms=FETCH_WAIT_MS,
                    max_partition_fetch_bytes=self._world.topology.fetch_bytes,
                    runtime=runtime,
                ) as consumer:
                    await self._ask(consumer)
                    await consumer.assign([self._partition])
                    await self._read(consumer, stop)
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    async def _ask(self, consumer: Consumer) -> None:
        history, tp = self._groups.history, self._partition
        operation = history.new_operation()
        history.add(self._who, told.OffsetsAsked(operation, SIMPLE, frozenset({tp})))
        at = await consumer.committed(tp, metadata=True)
        found = None if at is None else told.Committed(at.offset, at.leader_epoch, at.metadata)
        history.add(self._who, told.OffsetsTold(operation, {tp: found}))

    async def _read(self, consumer: Consumer, stop: asyncio.Event) -> None:
        for _ in range(self._rng.randint(*ROUNDS)):
            if stop.is_set():
                return
            try:
                found = await consumer.getmany(timeout_ms=POLL_MS)
            except LogTruncated as error:
                consumer.seek(error.partition, error.divergent_offset or 0)
                continue
            for tp, records in found.items():
                await self._commit(consumer, tp, records[-1].offset + 1)
            await asyncio.sleep(self._rng.choice(PAUSE_S))

    async def _commit(self, consumer: Consumer, tp: TopicPartition, offset: int) -> None:
        history = self._groups.history
        operation = history.new_operation()
        at = OffsetAndMetadata(offset, f"{operation}")
        offsets: dict[told.Partition, told.Committed] = {
            tp: told.Committed(offset, at.leader_epoch, at.metadata)
        }
        history.add(self._who, told.CommitAsked(operation, offsets, "", -1))
        try:
            await consumer.commit({tp: at})
        except StrandlineError as error:
            kind = told.CommitUnknown if error.may_have_been_written else told.CommitRefused
            history.add(self._who, kind(operation, describe(error)))
        else:
            history.add(self._who, told.CommitAcknowledged(operation))
            self._groups.sometimes["committed without being a member"] += 1


class Administrator:
    """An administrator. Each command to a group with members is refused or moves the group back: no
    command may make a group pass over records.
    """

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._groups = world.groups
        self._who = life_of(node)
        self._rng: Any = None

    async def run(self, runtime: Runtime, stop: asyncio.Event) -> None:
        self._rng = runtime.rng
        orders: list[Callable[[Any], Awaitable[None]]] = [
            self._list,
            self._describe,
            self._offsets,
            self._offsets,
            self._alter,
            self._alter,
            self._forget,
            self._delete,
            self._remove,
        ]
        while not stop.is_set():
            try:
                async with Admin(
                    self._world.topology.bootstrap,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as admin:
                    while not stop.is_set():
                        await asyncio.sleep(self._rng.choice(PAUSE_S))
                        await self._rng.choice(orders)(admin)
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    def _any_group(self) -> str:
        names = [group_name(number) for number in range(len(self._world.topology.groups))]
        return str(self._rng.choice([SIMPLE, *names]))

    def _any_partition(self) -> TopicPartition:
        return TopicPartition(TOPIC, self._rng.randrange(self._world.topology.partitions))

    # Queries.

    async def _list(self, admin: Any) -> None:
        await admin.list_groups()
        self._groups.sometimes["groups listed"] += 1

    async def _describe(self, admin: Any) -> None:
        await admin.describe_groups([self._any_group()])
        self._groups.sometimes["group described"] += 1

    async def _offsets(self, admin: Any) -> None:
        group, history = self._any_group(), self._groups.history
        partitions = [TopicPartition(TOPIC, p) for p in range(self._world.topology.partitions)]
        operation = history.new_operation()
        history.add(self._who, told.OffsetsAsked(operation, group, frozenset(partitions)))
        found = await admin.list_group_offsets(group, partitions)
        offsets: dict[told.Partition, told.Committed | None] = {
            tp: told.Committed(at.offset, at.leader_epoch, at.metadata) if at is not None else None
            for tp, at in ((tp, found.get(tp)) for tp in partitions)
        }
        history.add(self._who, told.OffsetsTold(operation, offsets))

    # Changes.

    async def _alter(self, admin: Any) -> None:
        group, tp = self._any_group(), self._any_partition()
        known = (await admin.list_group_offsets(group, [tp])).get(tp)
        offset = self._rng.randint(0, 0 if known is None else known.offset)
        operation = self._groups.history.new_operation()
        at = OffsetAndMetadata(offset, f"{operation}")
        await self._order(
            told.AdminAsked(
                operation,
                "alter_group_offsets",
                group,
                {tp: told.Committed(offset, at.leader_epoch, at.metadata)},
            ),
            lambda: admin.alter_group_offsets(group, {tp: at}),
        )

    async def _forget(self, admin: Any) -> None:
        group, tp = self._any_group(), self._any_partition()
        operation = self._groups.history.new_operation()
        await self._order(
            told.AdminAsked(operation, "delete_group_offsets", group, {tp: None}),
            lambda: admin.delete_group_offsets(group, [tp]),
        )

    async def _delete(self, admin: Any) -> None:
        group = self._any_group()
        operation = self._groups.history.new_operation()
        partitions = [TopicPartition(TOPIC, p) for p in range(self._world.partitions)]
        await self._order(
            told.AdminAsked(operation, "delete_groups", group, dict.fromkeys(partitions)),
            lambda: admin.delete_groups([group]),
        )

    async def _remove(self, admin: Any) -> None:
        """Removes one member, which joins again."""
        group = self._any_group()
        described = (await admin.describe_groups([group]))[group]
        if described.members:
            member_id = self._rng.choice(sorted(m.member_id for m in described.members))
            operation = self._groups.history.new_operation()
            await self._order(
                told.AdminAsked(operation, "remove_members", group, members=frozenset({member_id})),
                lambda: admin.remove_members(group, [member_id]),
            )

    async def _order(
        self, asked: told.AdminAsked, carry_out: Callable[[], Awaitable[object]]
    ) -> None:
        history = self._groups.history
        history.add(self._who, asked)
        try:
            await carry_out()
        except StrandlineError as error:
            # The command is repeated until it is answered: an earlier try may have been carried
            # out.
            history.add(self._who, told.AdminUnknown(asked.operation, describe(error)))
            if isinstance(error, OperationTimedOut):
                raise
        else:
            history.add(self._who, told.AdminAcknowledged(asked.operation))
            self._groups.sometimes[f"administrator of groups: {asked.what}"] += 1


async def run_committer(world: World, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
    await Committer(world, node).run(runtime, stop)


async def run_group_admin(world: World, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
    await Administrator(world, node).run(runtime, stop)
