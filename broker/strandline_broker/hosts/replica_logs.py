"""Which logs this broker holds: opened at the start, made for new replicas, given up with old ones.

A replica that the broker held before and that is not there is not made anew while it may count for
something: it is refused, and reported as offline (P-20).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from strandline_broker.hosts.log_loading import LogLoader
from strandline_broker.hosts.replica_configs import keep_everything
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.partition_state import PartitionState
    from strandline_broker.hosts.log_loading import Loaded
    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.replica_context import ReplicaContext
    from strandline_broker.storage.directory import DataDirectory
    from strandline_broker.storage.log import Log, LogConfig

Key = tuple[bytes, int]


class ReplicaLogs:
    """Owned by the replica manager."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self._dirs = context.dirs
        self._directories = context.dirs.directories
        self.refused: dict[Key, str] = {}
        """Replicas whose log cannot be opened or made, and why: they serve nothing."""
        self._unopened: set[Key] = set()

    async def load(self) -> list[Loaded]:
        """Open every log of the data directories; one that cannot be opened is refused (I-7)."""
        config = self._context.config
        loader = LogLoader(
            self._context.runtime,
            config=keep_everything(self._context),
            expiration_ms=config.producer_id_expiration_ms,
            threads=config.num_recovery_threads_per_data_dir,
        )
        loaded = await loader.load([each.directory for each in self._dirs.online()])
        for each in loaded:
            if each.log is None:
                key = (each.found.topic_id, each.found.partition)
                self.refused[key] = each.refusal
                self._unopened.add(key)
        return [each for each in loaded if each.log is not None]

    async def begin_anew_if_gone(self, state: PartitionState) -> None:
        """A replica whose directory is gone may be made anew if it is in no ISR: then it counts for
        nothing until it has copied all that its leader holds.

        A proposal to add it cannot be under way: this incarnation has never fetched it.
        """
        key = (state.topic_id, state.partition)
        if key not in self._directories.hosted or key in self._unopened:
            return
        in_isr = any(m.broker_id == self._context.me for m in state.isr)
        if in_isr or state.leader == NO_LEADER or self._directories.failed:
            return
        self._context.runtime.log.warning(
            "the directory of a replica is gone; it is made anew", partition=state.where
        )
        self.refused.pop(key, None)
        await self._dirs.in_registry(partial(self._directories.forget_hosted, *key))

    async def create(self, state: PartitionState, config: LogConfig) -> Log:
        """A log in the directory with the fewest."""
        failed = self._directories.failed
        # What a reassignment adds is in none of them, unless it was here before.
        is_added = (
            self._context.me in state.adding
            and (state.topic_id, state.partition) not in self._directories.hosted
        )
        if failed and not (state.is_new or is_added):
            raise KafkaStorageError(
                f"{state.where} is not here, but may be in {', '.join(failed)}, out of service: "
                f"repair it, or take it out of log.dirs, and restart broker {self._context.me}"
            )
        log_dir = self._dirs.for_new_log()
        create = partial(
            self._directories.create_log,
            log_dir.directory,
            state.topic,
            state.topic_id,
            state.partition,
            config,
        )
        try:
            return await self._dirs.in_registry(create)
        except OSError as error:
            self._dirs.suffers(log_dir, error)
            raise

    def refuse(self, state: PartitionState, why: str) -> None:
        self.refused[state.topic_id, state.partition] = why
        self._context.report_offline()

    async def forget(self, key: Key) -> None:
        """A replica that is refused is not assigned to this broker any more."""
        if self.refused.pop(key, None) is not None and key not in self._unopened:
            await self._dirs.in_registry(partial(self._directories.forget_hosted, *key))

    async def delete(self, partition: Partition) -> None:
        """Free the name at once, remove the files later (P-51)."""
        await self._give_up(partition, self._directories.delete_log)
        log_dir = self._dirs.of(partition.log)
        if log_dir.failure is None:
            log_dir.cold.submit(log_dir.directory.purge_deleted)

    async def set_aside(self, partition: Partition) -> None:
        """Keep the files under another name, for the operator to remove (I-87)."""
        await self._give_up(partition, self._directories.mark_stray)
        self._context.runtime.log.warning("stray replica set aside", partition=partition.name)

    async def _give_up(
        self, partition: Partition, give_up: Callable[[DataDirectory, Log], None]
    ) -> None:
        """If the disk does not let us, the replica is found again, as a stray, when it does."""
        log_dir = self._dirs.of(partition.log)
        async with partition.gate:
            await self._context.upkeep.cleaner.abandon(partition)
            if log_dir.failure is not None:
                return
            try:
                await self._dirs.in_registry(partial(give_up, log_dir.directory, partition.log))
            except OSError as error:
                self._dirs.suffers(log_dir, error)
                self._context.runtime.log.error(
                    "a replica could not be removed", partition=partition.name, reason=str(error)
                )
