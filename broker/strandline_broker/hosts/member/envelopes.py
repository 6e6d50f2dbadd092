"""The application of the controller's envelopes to the replicas of this broker.

An envelope is applied in this order:

- Replicas to stop (P-18), then strays if it is a snapshot (I-87).
- New roles with their fetchers.
- The brokers that may be in an ISR. A leader knows these before it uses a new partition epoch. It
  proposes no broker in that epoch which the same decision has barred (I-15, I-16).

A replica's old role ends before its new one begins, so no two leader epochs of a partition serve at
once (I-44). The files that a role needs are durable before the role is published (I-46, P-36).
State older than a replica's own changes nothing (I-34).

An envelope may concern thousands of replicas. A few take their roles at a time, so that their
writes become durable together, and the event loop has turns for other callers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.core.push_answer import FailedPartition
from strandline_broker.core.push_envelope import NO_EPOCH_CHECK, TOPIC_DELETED
from strandline_broker.core.replication.producer_state import ProducerStates
from strandline_broker.hosts.common.dynamic_config import log_config
from strandline_broker.hosts.disks.log_dirs import passes_with_room
from strandline_broker.hosts.member.replica_configs import configure_replicas
from strandline_broker.hosts.replica.late_roles import LateRoles
from strandline_broker.storage.log.log import Log
from strandline_proto.errors import KafkaStorageError, UnknownServerError, WireError
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.push_envelope import Envelope, StopReplica
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.fetching.fetchers import Fetchers
    from strandline_broker.hosts.member.replica_logs import ReplicaLogs
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.eligibility import Eligibility
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.roles import Roles
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_runtime.runtime import Runtime

AT_ONCE: Final = 32
"""Replicas that take their roles side by side."""
ROLES_SINGLY: Final = 5
"""Number of roles above which a topic's role changes share one line at level info."""
TURN_S: Final = 0.05
"""Time after which a slow replica delays no other: on a disk that hangs, all are late at once."""


class Envelopes:
    """The application of envelopes; `PushReceiver` makes sure that one is applied at a time."""

    def __init__(
        self,
        runtime: Runtime,
        metadata: MetadataCache,
        controller: ToController,
        replicas: ReplicaManager,
        *,
        config: DynamicConfig,
        eligibility: Eligibility,
        roles: Roles,
        logs: ReplicaLogs,
        fetchers: Fetchers,
        session_s: Callable[[], float],
    ) -> None:
        self._log = runtime.log
        self._metadata = metadata
        self._controller = controller
        self._replicas = replicas
        self._config = config
        self._eligibility = eligibility
        self._roles = roles
        self._fetchers = fetchers
        self.late = LateRoles(runtime, session_s=session_s, on_done=controller.ask_for_all)
        self._logs = logs
        self.lacks_something = False
        """True if a part of the last envelope could not be applied, and may be applied later."""

    async def apply(self, envelope: Envelope) -> list[FailedPartition]:
        """Carry out one accepted envelope; returns the partitions that could not be applied
        (P-79).
        """
        errors: list[FailedPartition] = []
        self.lacks_something = False
        self._eligibility.on_envelope(envelope)
        if envelope.dynamic_configs is not None:
            self._config.alter(envelope.dynamic_configs.altered)
        for stop in envelope.stop_replicas:
            await self._stop(stop)
            self._on_applied()
        if envelope.full:
            await self._set_strays_aside(envelope)
        changes = await self._new_roles(envelope, errors)
        configure_replicas(self._metadata, self._replicas.partitions, envelope)
        await self._take_roles(changes, errors)
        self._eligibility.tell_leaders(self._replicas.partitions)
        return errors

    async def _take_roles(
        self, changes: list[tuple[Partition, PartitionState]], errors: list[FailedPartition]
    ) -> None:
        loop, turns = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)
        of_topic = Counter(partition.log.topic for partition, _ in changes)
        summarized = {topic for topic, count in of_topic.items() if count > ROLES_SINGLY}

        async def take(partition: Partition, state: PartitionState) -> None:
            turn_ends = loop.call_later(TURN_S, turns.release)
            await asyncio.sleep(0)  # others get turns, where no disk is waited for
            try:
                say = self._log.debug if partition.log.topic in summarized else self._log.info
                await self.late.in_time(partition.key, self._take_role(partition, state, say))
            except WireError as error:
                errors.append(self._failed(state, error))
                self.lacks_something |= partition.unusable is None  # it may pass (I-88)
                self._controller.report_offline()
            if loop.time() < turn_ends.when():
                turn_ends.cancel()
                turns.release()

        async with asyncio.TaskGroup() as group:
            for partition, state in changes:
                await turns.acquire()
                group.create_task(take(partition, state))
        failed = {(each.topic_id, each.partition) for each in errors}
        taken = [(p.log.topic, state) for p, state in changes if p.key not in failed]
        self._summarize({t: [s for topic, s in taken if topic == t] for t in sorted(summarized)})

    def _summarize(self, roles: dict[str, list[PartitionState]]) -> None:
        for topic, taken in roles.items():
            leads = sum(state.leader == self._replicas.me for state in taken)
            leaderless = sum(state.leader == NO_LEADER for state in taken)
            self._log.info(
                "roles",
                topic=topic,
                partitions=len(taken),
                leads=leads,
                follows=len(taken) - leads - leaderless,
                leaderless=leaderless,
            )

    async def _new_roles(
        self, envelope: Envelope, errors: list[FailedPartition]
    ) -> list[tuple[Partition, PartitionState]]:
        """Replicas that enter a new leader epoch, their logs made if need be."""
        changes = []
        prepared = [state for state in envelope.leader_and_isr if await self._ready(state, errors)]
        await self._create_missing(prepared, envelope, errors)
        for state in prepared:
            partition = self._replicas.partitions.get((state.topic_id, state.partition))
            if partition is None:
                continue
            if (why := partition.unusable) is not None:
                errors.append(self._failed(state, KafkaStorageError(why)))
            elif (late := self.late.why(partition.key)) is not None:
                self.late.put_off(partition.key, partial(self._go_by, partition, state))
                errors.append(self._failed(state, late))
            elif self._accept(partition, state):
                changes.append((partition, state))
        return changes

    async def _ready(self, state: PartitionState, errors: list[FailedPartition]) -> bool:
        """True if the replica is here, or may be created."""
        known = self._replicas.partitions.get((state.topic_id, state.partition))
        try:
            if (problem := state.problem(known.state if known else None)) is not None:
                raise UnknownServerError(problem)
            if known is None:
                await self._logs.prepare(state, self._replicas.adopt_loaded)
            self._replicas.find(state.topic_id, state.partition)
        except (WireError, OSError) as error:
            errors.append(self._failed(state, error))
            return False
        return True

    async def _create_missing(
        self, states: list[PartitionState], envelope: Envelope, errors: list[FailedPartition]
    ) -> None:
        known = self._replicas.partitions
        missing = [s for s in states if (s.topic_id, s.partition) not in known]
        if not missing:
            return
        own = {topic.topic_id: topic.configs for topic in envelope.hosted_topics}
        wanted = [(s, log_config(self._config.resolve(own.get(s.topic_id, {})))) for s in missing]
        made = await self._logs.create(wanted, self._on_applied)
        for state, log in zip(missing, made, strict=True):
            if isinstance(log, Log):
                partition = self._replicas.adopt(log, 0)
                if log.log_end_offset == 0:  # no producer state to read
                    expiration_ms = self._config.current.producer_id_expiration_ms
                    partition.take_producers(ProducerStates(expiration_ms))
            else:
                errors.append(self._failed(state, log))

    def _accept(self, partition: Partition, state: PartitionState) -> bool:
        """I-34: true for a new leader epoch; a newer partition epoch is carried out here."""
        known = partition.state
        if known is None or state.leader_epoch > known.leader_epoch:
            return True
        if state.leader_epoch == known.leader_epoch and state.is_newer_than(known):
            self._eligibility.tell_leader(partition)
            partition.update(state)
        return False

    async def _go_by(self, partition: Partition, state: PartitionState) -> None:
        """Take a role that was deferred while the replica was taking an earlier one."""
        if partition.unusable is None and self._accept(partition, state):
            await self._take_role(partition, state, self._log.info)

    async def _take_role(
        self, partition: Partition, state: PartitionState, say: Callable[..., None]
    ) -> None:
        self._fetchers.forget(partition.key)
        partition.stop_role(f"leader epoch {state.leader_epoch} has begun")
        async with partition.gate:
            log = partition.log
            partition.admit_epoch(state)
            # A new log, a truncation that was cut short, or one after which not all could be read.
            if log.producers is None or log.replay_lacks:
                await partition.rebuild_producers()
            if state.leader != NO_LEADER:
                await partition.give_up_lost_watermark()
            if state.leader == self._replicas.me:
                # First the durable steps, which can fail, then the role (I-46, P-36).
                if not log.leader_epochs.has_begun(state.leader_epoch):
                    await partition.in_disk_group(log.assigning_epoch(state.leader_epoch))
                self._roles.lead(partition, state)
            else:
                await self._roles.follow(partition, state)
        self._fetchers.fetch(partition)
        self._on_applied()
        say(
            "role",
            partition=partition.name,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            log_end_offset=partition.log.log_end_offset,
            high_watermark=partition.high_watermark,
        )

    def _failed(self, state: PartitionState, error: WireError | OSError) -> FailedPartition:
        passes = passes_with_room(error) or self._logs.waits_for_way(state)
        self.lacks_something |= passes
        if isinstance(error, OSError):
            error = KafkaStorageError(f"{state.where} on broker {self._replicas.me}: {error}")
        self._log.error("cannot apply", partition=state.where, reason=str(error))
        if (state.topic_id, state.partition) not in self._replicas.partitions and not passes:
            self._logs.refuse(state, str(error))
        return FailedPartition(state.topic_id, state.partition, error)

    async def _stop(self, stop: StopReplica) -> None:
        key = (stop.topic_id, stop.partition)
        if key not in self._replicas.partitions:
            await self._logs.forget(key, delete=stop.delete)
        partition = self._replicas.partitions.get(key)  # it may have been opened before that
        if partition is None:
            return
        older = stop.leader_epoch < partition.leader_epoch
        if older and stop.leader_epoch not in (NO_EPOCH_CHECK, TOPIC_DELETED):
            return  # overtaken by a newer assignment (P-18)
        await self.late.end(partition.key)
        self._replicas.drop(partition, "the replica has been removed")
        if stop.delete:
            await self._logs.delete(partition)
            self._roles.on_deleted(partition)

    def _on_applied(self, replicas: int = 1) -> None:
        """The broker goes on with the envelope, which its heartbeats say (I-94)."""
        self._replicas.on_applied(replicas)

    async def _set_strays_aside(self, envelope: Envelope) -> None:
        """Keep only the replicas that the snapshot assigns; rename the rest (I-87)."""
        assigned = {(s.topic_id, s.partition) for s in envelope.leader_and_isr}
        # First the closed ones: one that is opened before its turn is among the others.
        for key in [key for key in self._logs.refused if key not in assigned]:
            await self._logs.forget(key, delete=False)
        for key, partition in list(self._replicas.partitions.items()):
            if key not in assigned:
                await self.late.end(key)
                why = "the controller assigns no such replica to this broker"
                self._replicas.drop(partition, why)
                await self._logs.set_aside(partition)
                self._roles.on_deleted(partition)
                self._on_applied()
