"""A scripted member of a classic group: it joins, takes its share, reads, commits and leaves by
Kafka's frames. Its leader assigns as Kafka's range assignor does.

It rebalances eagerly: it gives all partitions up before it joins again. It writes the same events
down as a member of the library.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import TYPE_CHECKING, Any, Final

from strandline.errors import describe
from strandline.types import TopicPartition
from strandline_proof.sim.groups.scene import life_of
from strandline_proof.sim.kafka.connection import (
    KafkaCluster,
    KafkaFailed,
    check,
    owned_tasks,
    request_of,
)
from strandline_proof.sim.kafka.reader import Diverged, KafkaReader, OutOfRange
from strandline_proof.sim.topology.groups import MANUAL, STATIC, group_name
from strandline_proof.sim.topology.topology import TOPIC
from strandline_proof.sim.workload import group_history as told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.kafka.connection import KafkaConnection
    from strandline_proto.batch import Record
    from strandline_runtime.runtime import Runtime

SESSION_MS: Final = 1500
REBALANCE_MS: Final = 2500
BEAT_S: Final = 0.4
POLL_S: Final = 0.3
RETRY_S: Final = 0.2
COMMIT_S: Final = 0.7
COMMIT_AFTER: Final = (1, 2, 5)
"""Polls with records between two commits of a member that commits by itself."""
WORK_S: Final = (0.0, 0.05, 0.2, 0.4)
JOINS: Final = (2, 3, 4, 5, 7, 9)
"""Versions of JoinGroup."""
STATIC_FROM: Final = 5
"""First version of JoinGroup with an instance id (KIP-345)."""
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER: Final = 25
REBALANCE: Final = 27
MEMBER_ID_REQUIRED: Final = 79
FENCED_INSTANCE: Final = 82
EXPELLED: Final = frozenset((ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED_INSTANCE))
REFUSED: Final = EXPELLED | {REBALANCE}
"""Errors of a commit that was not carried out, and never will be."""


class _Rejoin(Exception):
    """The group rebalances: the member gives its partitions up and joins again."""


class _Expelled(Exception):
    """The member is none any more: its partitions may be another's."""


class ClassicMember:
    """One life of a member, with what `Groups` looks at."""

    def __init__(self, world: World, node: Node, group: int, number: int) -> None:
        spec = world.topology.groups[group]
        self.group = group
        self.owned: dict[TopicPartition, None] = {}
        self.trouble = "not started"
        self.busy_s = 0.0
        self.positions: dict[TopicPartition, int] = {}
        self._world = world
        self._groups = world.groups
        self._who = life_of(node)
        self._habits = spec.members[number].split()
        self._instance = node.name if STATIC in self._habits else None
        self._group_id = group_name(group)
        self._given: dict[TopicPartition, int] = {}
        self._member_id = ""
        self._generation = -1
        self._is_known = False
        """True if this membership was written down."""
        self._verdict: Exception | None = None
        """What the last heartbeat said, unless all is well."""
        self._beaten_s = 0.0
        """When the call was sent that the coordinator last renewed the session by."""
        self._rng: Any = None

    async def run(self, runtime: Runtime, stop: asyncio.Event) -> None:
        self._rng = runtime.rng
        while not stop.is_set():
            try:
                async with owned_tasks() as tasks:
                    cluster = KafkaCluster(runtime, self._world.topology.kafka_bootstrap, tasks)
                    self._version = self._rng.choice(
                        [v for v in JOINS if v >= STATIC_FROM or self._instance is None]
                    )
                    self._cluster = cluster
                    self._reader = KafkaReader(
                        cluster,
                        TOPIC,
                        keys=(),
                        partition_bytes=self._world.topology.fetch_bytes,
                        compression=self._world.topology.work.compression,
                        on_record=_ignore,
                        on_event=self._count,
                    )
                    tasks.spawn(self._beat())
                    try:
                        await self._live(stop)
                    finally:
                        cluster.close()
            except KafkaFailed as error:
                self.trouble = describe(error)
                self._lose()
                self._count("classic member began again after an error")
                await asyncio.sleep(RETRY_S)

    def _count(self, event: str) -> None:
        self._groups.sometimes[event] += 1

    def _note(self, event: told.GroupEvent) -> None:
        self._groups.history.add(self._who, event)

    async def _live(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._join()
                await self._consume(stop)
            except _Rejoin:
                await self._give_up()
            except _Expelled:
                self._lose()
                self._member_id = ""
        await self._give_up()
        await self._leave()
        self._note(told.Left())

    # The membership

    async def _coordinator(self) -> KafkaConnection:
        connection = await self._cluster.any_broker()
        found = await connection.call("FindCoordinator", 2, key=self._group_id, key_type=0)
        check(found.error_code, "FindCoordinator")
        return await self._cluster.at(found.host, found.port)

    async def _join(self) -> None:
        """Joins and gets a share, through as many rebalances as it takes. Raises _Expelled."""
        while True:
            connection = await self._coordinator()
            joined = await self._joined(connection)
            if joined.error_code == MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
                continue
            if joined.error_code in EXPELLED:
                self._raise_fenced(joined.error_code)
                raise _Expelled
            check(joined.error_code, "JoinGroup")
            self._member_id, self._generation = joined.member_id, joined.generation_id
            shares = {}
            if joined.leader == joined.member_id:
                shares = await self._shares(joined.members)
            synced = await self._synced(connection, shares)
            if synced.error_code == REBALANCE:
                continue
            if synced.error_code in EXPELLED:
                self._raise_fenced(synced.error_code)
                raise _Expelled
            check(synced.error_code, "SyncGroup")
            await self._take(_partitions_of(bytes(synced.assignment)))
            return

    def _raise_fenced(self, code: int) -> None:
        """A static member that another process replaced must not go on."""
        if code == FENCED_INSTANCE and self._groups.is_judged(self._group_id):
            raise AssertionError(f"{self._who} is fenced, and no other process has its instance id")

    async def _joined(self, connection: KafkaConnection) -> Any:
        protocol = request_of("JoinGroup").JoinGroupRequestProtocol
        self._beaten_s = asyncio.get_running_loop().time()
        fields: dict[str, Any] = {
            "group_id": self._group_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self._member_id,
            "protocol_type": "consumer",
            "protocols": [protocol(name="range", metadata=_subscription(TOPIC))],
        }
        if self._version >= STATIC_FROM:
            fields["group_instance_id"] = self._instance
        return await connection.call(
            "JoinGroup", self._version, within_s=(REBALANCE_MS + SESSION_MS) / 1000, **fields
        )

    async def _synced(self, connection: KafkaConnection, shares: Mapping[str, bytes]) -> Any:
        kind = request_of("SyncGroup").SyncGroupRequestAssignment
        self._beaten_s = asyncio.get_running_loop().time()  # a join may wait for a whole session
        fields: dict[str, Any] = {
            "group_id": self._group_id,
            "generation_id": self._generation,
            "member_id": self._member_id,
            "assignments": [kind(member_id=m, assignment=share) for m, share in shares.items()],
        }
        if self._instance is not None:
            fields["group_instance_id"] = self._instance
        version = 3 if self._instance is not None else 2
        return await connection.call(
            "SyncGroup", version, within_s=(REBALANCE_MS + SESSION_MS) / 1000, **fields
        )

    async def _shares(self, members: list[Any]) -> dict[str, bytes]:
        """The assignment of each member: partitions in ranges, as even as can be."""
        await self._cluster.refresh(TOPIC)
        count = self._cluster.partitions[TOPIC]
        ordered = sorted(members, key=lambda m: m.group_instance_id or m.member_id)
        shares, first = {}, 0
        for number, member in enumerate(ordered):
            size = count // len(ordered) + (number < count % len(ordered))
            shares[member.member_id] = _assignment(TOPIC, range(first, first + size))
            first += size
        return shares

    async def _take(self, partitions: list[int]) -> None:
        """Takes the share: reads the committed offsets, and owns the partitions from then on."""
        found = await self._committed(partitions)
        positions = {}
        for partition in partitions:
            at = found.get(partition)
            positions[partition] = (
                await self._reader.beginning_of(partition) if at is None else at.offset
            )
        self._reader.assign(positions)
        self._verdict = None
        if not self._is_known:
            self._is_known = True
            self._note(
                told.Joined(self._group_id, self._member_id, self._generation, self._instance)
            )
        assigned = frozenset(TopicPartition(TOPIC, p) for p in partitions)
        self._note(told.Assigned(assigned, self._generation))
        self._groups.on_rebalance()
        self.owned = dict.fromkeys(sorted(assigned))
        self.trouble = ""
        self._count("classic member got a share")

    async def _give_up(self) -> None:
        """Gives all partitions up, and commits before if it commits by itself."""
        if MANUAL in self._habits and self._given:
            with contextlib.suppress(_Rejoin, _Expelled):
                await self._commit(self._given)
        self._groups.on_rebalance()
        revoked = frozenset(self.owned)
        self._forget()
        self._note(told.Revoked(revoked, self._generation))

    def _lose(self) -> None:
        """Another member may own the partitions by now."""
        lost = frozenset(self.owned)
        self._forget()
        self._is_known = False
        if lost:
            self._note(told.Lost(lost, self._generation))
            self._count("classic member lost its partitions")

    def _forget(self) -> None:
        self.owned, self._given, self.positions = {}, {}, {}
        self._reader.assign({})

    async def _leave(self) -> None:
        if self._instance is not None or not self._member_id:
            return  # a static member keeps its place
        try:
            connection = await self._coordinator()
            await connection.call(
                "LeaveGroup", 2, group_id=self._group_id, member_id=self._member_id
            )
        except KafkaFailed:
            self._count("classic member left without an answer")

    async def _beat(self) -> None:
        """Heartbeats while the member owns its share; what they say is left in `_verdict`."""
        while True:
            await asyncio.sleep(BEAT_S)
            if self._verdict is not None or not self._is_known or self.trouble:
                continue
            asked_s = asyncio.get_running_loop().time()
            generation = self._generation
            try:
                connection = await self._coordinator()
                answer = await connection.call(
                    "Heartbeat",
                    2,
                    group_id=self._group_id,
                    generation_id=generation,
                    member_id=self._member_id,
                )
            except KafkaFailed:
                continue
            if generation != self._generation:
                continue  # it has joined again meanwhile
            if answer.error_code == 0:
                self._beaten_s = asked_s
            elif answer.error_code == REBALANCE:
                self._verdict = _Rejoin()
            elif answer.error_code in EXPELLED:
                self._verdict = _Expelled()

    def _check(self) -> None:
        """Raises what the heartbeats have said. Without any answer the session is over."""
        if self._verdict is not None:
            raise self._verdict
        if asyncio.get_running_loop().time() > self._beaten_s + SESSION_MS / 1000:
            raise _Expelled

    # Records and commits

    async def _consume(self, stop: asyncio.Event) -> None:
        polls, commit_after = 0, self._rng.choice(COMMIT_AFTER)
        committed_s = asyncio.get_running_loop().time()
        while not stop.is_set():
            self._check()
            found = await self._polled()
            self._check()
            for partition, records in found.items():
                tp = TopicPartition(TOPIC, partition)
                offsets = [offset for offset, _ in records]
                self._groups.on_delivered(self._who, self.group, tp, offsets)
                self._given[tp] = self.positions[tp] = offsets[-1] + 1
            if found:
                polls += 1
                await asyncio.sleep(self._work_s() + self.busy_s)
                self.busy_s = 0.0
            now_s = asyncio.get_running_loop().time()
            if MANUAL in self._habits:
                is_due = bool(found) and polls % commit_after == 0
            else:
                is_due = now_s >= committed_s + COMMIT_S
            if is_due and self._given:
                self._check()
                committed_s = now_s
                await self._commit(self._given)

    def _work_s(self) -> float:
        return 0.0 if self._groups.catches_up else float(self._rng.choice(WORK_S))

    async def _polled(self) -> dict[int, list[tuple[int, bytes | None]]]:
        if not self.owned:
            await asyncio.sleep(POLL_S)
            return {}
        try:
            return await self._reader.poll(POLL_S)
        except Diverged as error:
            self._count("classic member was told of a truncation")
            self._seek(error.partition, error.offset)
        except OutOfRange as error:
            self._seek(error.partition, await self._reader.beginning_of(error.partition))
        except KafkaFailed:
            await asyncio.sleep(RETRY_S)
        return {}

    def _seek(self, partition: int, offset: int) -> None:
        at = {tp.partition: self._reader.position(tp.partition) for tp in self.owned}
        self._reader.assign(at | {partition: offset})

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits; raises _Rejoin or _Expelled if the coordinator says so."""
        offsets = {tp: at for tp, at in offsets.items() if tp in self.owned}
        self._given = {}
        if not offsets:
            return
        operation = self._groups.history.new_operation()
        metadata = f"{operation}"
        committed: dict[told.Partition, told.Committed] = {
            tp: told.Committed(at, -1, metadata) for tp, at in offsets.items()
        }
        self._note(told.CommitAsked(operation, committed, self._member_id, self._generation))
        try:
            codes = await self._commit_codes(offsets, metadata)
        except KafkaFailed as error:
            kind = told.CommitUnknown if error.may_have_been_written else told.CommitRefused
            self._note(kind(operation, describe(error)))
            return
        if not any(codes):
            self._note(told.CommitAcknowledged(operation))
            self._count("classic member committed")
            return
        is_refused = all(code in REFUSED for code in codes)
        self._note(
            (told.CommitRefused if is_refused else told.CommitUnknown)(operation, f"{codes}")
        )
        if any(code in EXPELLED for code in codes):
            raise _Expelled
        if REBALANCE in codes:
            raise _Rejoin

    async def _commit_codes(
        self, offsets: Mapping[TopicPartition, int], metadata: str
    ) -> list[int]:
        connection = await self._coordinator()
        kind = request_of("OffsetCommit").OffsetCommitRequestTopic
        partitions = [
            kind.OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=at,
                committed_leader_epoch=-1,
                committed_metadata=metadata,
            )
            for tp, at in sorted(offsets.items())
        ]
        answer = await connection.call(
            "OffsetCommit",
            7,
            group_id=self._group_id,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            topics=[kind(name=TOPIC, partitions=partitions)],
        )
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    async def _committed(self, partitions: list[int]) -> dict[int, told.Committed | None]:
        """Reads the group's committed offsets, and writes the question and the answer down."""
        if not partitions:
            return {}
        asked = frozenset(TopicPartition(TOPIC, p) for p in partitions)
        operation = self._groups.history.new_operation()
        self._note(told.OffsetsAsked(operation, self._group_id, frozenset(asked)))
        connection = await self._coordinator()
        kind = request_of("OffsetFetch").OffsetFetchRequestTopic
        answer = await connection.call(
            "OffsetFetch",
            7,
            group_id=self._group_id,
            topics=[kind(name=TOPIC, partition_indexes=partitions)],
            require_stable=True,
        )
        check(answer.error_code, "OffsetFetch")
        found: dict[int, told.Committed | None] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, "OffsetFetch")
                is_there = each.committed_offset >= 0
                found[each.partition_index] = (
                    told.Committed(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
                    if is_there
                    else None
                )
        answers: dict[told.Partition, told.Committed | None] = {
            TopicPartition(TOPIC, p): at for p, at in found.items()
        }
        self._note(told.OffsetsTold(operation, answers))
        return found


def _ignore(record: Record) -> None:
    """Members hand records over by their offsets alone."""


def _subscription(topic: str) -> bytes:
    """A ConsumerProtocolSubscription of version 0."""
    name = topic.encode()
    return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)


def _assignment(topic: str, partitions: range) -> bytes:
    """A ConsumerProtocolAssignment of version 0."""
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, len(partitions))
    return head + struct.pack(f">{len(partitions)}i", *partitions) + struct.pack(">i", -1)


def _partitions_of(assignment: bytes) -> list[int]:
    """The partitions of an assignment to the one topic; empty bytes mean none."""
    if not assignment:
        return []
    (length,) = struct.unpack_from(">h", assignment, 6)
    at = 8 + length
    (count,) = struct.unpack_from(">i", assignment, at)
    return list(struct.unpack_from(f">{count}i", assignment, at + 4))


async def run_classic_member(
    world: World, node: Node, runtime: Runtime, stop: asyncio.Event, group: int, number: int
) -> None:
    node.process = member = ClassicMember(world, node, group, number)
    await member.run(runtime, stop)
