"""The set of replicas of one broker: its loading, and its background work.

Every replica in the set serves. Only `adopt` and `drop` change the set: at the start, and as
`envelopes.py` applies the controller's pushes.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.common.cuts import Cuts
from strandline_broker.hosts.common.dynamic_config import DynamicConfig
from strandline_broker.hosts.common.events import Events
from strandline_broker.hosts.common.topic_counters import BrokerCounters
from strandline_broker.hosts.disks.log_dirs import FULL_DISK_RETRY_S, LogDirs
from strandline_broker.hosts.fetching.copy_throttle import FollowerThrottle
from strandline_broker.hosts.fetching.fetchers import Fetchers
from strandline_broker.hosts.fetching.stream import FetchStreams
from strandline_broker.hosts.member.replica_logs import ReplicaLogs
from strandline_broker.hosts.replica.eligibility import Eligibility
from strandline_broker.hosts.replica.losses import Losses
from strandline_broker.hosts.replica.partition import Partition
from strandline_broker.hosts.replica.roles import Roles
from strandline_broker.hosts.replica.suspects import Suspects
from strandline_broker.hosts.replica.truncations import Truncations
from strandline_broker.hosts.upkeep.damage_watch import DamageWatch, condition_of
from strandline_broker.hosts.upkeep.log_upkeep import LogUpkeep
from strandline_broker.hosts.upkeep.scrubber import Scrubber
from strandline_proto.errors import KafkaStorageError, OffsetOutOfRange
from strandline_proto.ids import BrokerId
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.replication.replica_condition import RefusedTruncation
    from strandline_broker.hosts.disks.log_dirs import LogDir
    from strandline_broker.hosts.disks.log_loading import Loaded
    from strandline_broker.hosts.fetching.stream import OpenFetch
    from strandline_broker.hosts.replica.observers import RoleObserver
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_broker.storage.directory.broker_directories import BrokerDirectories
    from strandline_broker.storage.log.log import Log
    from strandline_proto.ids import BrokerEpoch
    from strandline_runtime.runtime import Runtime

Key = tuple[bytes, int]

T = TypeVar("T")


class ReplicaManager:
    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        directories: BrokerDirectories,
        metadata: MetadataCache,
        controller: ToController,
        *,
        open_fetch: OpenFetch,
        observers: Sequence[RoleObserver] = (),
        events: Events | None = None,
    ) -> None:
        self.me = me = BrokerId(config.node_id)
        self._runtime, self._controller = runtime, controller
        self.is_sure = controller.is_sure
        self._metadata = metadata
        self.config = DynamicConfig(config)
        self.dirs = LogDirs(
            runtime, directories, on_failed=self._on_dir_failed, on_full=controller.report_offline
        )
        self.partitions: dict[Key, Partition] = {}
        self.counters = BrokerCounters()
        self.applied_partitions = 0
        """Number of times that an envelope has stopped, made or given a role to a replica."""
        self.events = Events(runtime.clock) if events is None else events
        cuts = Cuts(self.events)
        self.losses = Losses(runtime, controller)
        self.truncations = Truncations(runtime, me, controller)
        self.eligibility = Eligibility(metadata)
        self.upkeep = LogUpkeep(runtime, self.config, self.dirs, self._all)
        self.roles = self._new_roles(controller, cuts, observers)
        self.fetchers = Fetchers(
            runtime,
            self.config,
            FetchStreams(self.config, metadata, controller, open_fetch),
            flushes=self.upkeep.flushes,
            truncations=self.truncations,
            copies=FollowerThrottle(runtime.clock, self.config),
        )
        self.logs = ReplicaLogs(runtime, self.config, self.dirs, controller)
        self._by_log: dict[Log, Partition] = {}
        self._suspects = Suspects(self.partitions)
        scrub = runtime.serial_executor("scrub")
        self.damage = DamageWatch(
            runtime,
            me,
            self.dirs,
            metadata,
            controller,
            suspects=self._suspects,
            scrub=scrub,
            fetchers=self.fetchers,
            cuts=cuts,
        )
        self.scrubber = Scrubber(runtime, self.config, self._all, thread=scrub)

    def _new_roles(
        self, controller: ToController, cuts: Cuts, observers: Sequence[RoleObserver]
    ) -> Roles:
        return Roles(
            self._runtime.clock,
            self.config,
            controller,
            flushes=self.upkeep.flushes,
            retention=self.upkeep.retention,
            eligibility=self.eligibility,
            truncations=self.truncations,
            losses=self.losses,
            cuts=cuts,
            observers=observers,
        )

    # Questions of handlers

    def offline_replicas(self) -> dict[Key, ReplicaCondition]:
        """Replicas that do not count as the others here do."""
        offline = {key: refusal.condition for key, refusal in self.logs.refused.items()}
        for log in self.dirs.logs_without_room():
            if log in self._by_log:
                offline[self._by_log[log].key] = ReplicaCondition.DISK_FULL
        for partition in self._suspects.all():
            if (condition := condition_of(partition)) is not None:
                offline[partition.key] = condition
        return offline

    def strays(self) -> tuple[str, ...]:
        return self.logs.strays

    def refused_truncations(self) -> list[RefusedTruncation]:
        return self.truncations.of(self._suspects.all())

    def find(self, topic_id: bytes, index: int) -> Partition | None:
        """The replica of that partition here; raises KafkaStorageError for one out of service."""
        key = (topic_id, index)
        partition = self.partitions.get(key)
        if partition is None and key in self.logs.refused:
            raise KafkaStorageError(self.logs.refused[key].why)
        return partition

    def broker_epoch_of(self, broker_id: BrokerId) -> BrokerEpoch | None:
        broker = self._metadata.view.brokers.get(broker_id)
        return None if broker is None else broker.broker_epoch

    async def warm(self, partition: Partition, offset: int, max_bytes: int) -> None:
        """Read cold bytes beside the loop, and check them after their time on the disk (I-7).

        The next reader judges bytes that are gone, by the role at that moment (P-13).
        """
        log = partition.log
        if log.log_start_offset <= offset < log.log_end_offset:
            limit = log.log_end_offset
            with contextlib.suppress(OffsetOutOfRange):
                await self.read_cold(
                    partition,
                    lambda: partition.read_log(
                        offset, max_bytes=max_bytes, limit=limit, checked=True, committed=True
                    ),
                )

    def read_cold(self, partition: Partition, read: Callable[[], T]) -> asyncio.Future[T]:
        """Run a read that may need the disk; the caller checks its role again."""
        thread = self.dirs.of(partition.log).cold
        return asyncio.get_running_loop().run_in_executor(thread, read)

    # Loading

    async def load(self) -> None:
        """Open every log of the data directories; one that cannot be opened is refused (I-7)."""
        for each in await self.logs.load():
            self.adopt_loaded(each)

    def adopt_loaded(self, each: Loaded) -> None:
        assert each.log is not None, each.found
        assert each.producers is not None, each.found
        partition = self.adopt(each.log, each.log.checkpointed_high_watermark)
        partition.take_producers(each.producers)

    async def _load_late(self) -> None:
        """Load the logs that a full disk kept closed once there is room, then give them their
        roles.
        """
        while True:
            await asyncio.sleep(FULL_DISK_RETRY_S)
            if self.logs.strays:
                await self.logs.look_for_strays()  # the operator may have removed them
            if await self.logs.open_late(self.adopt_loaded):
                self._controller.report_offline()
                self._controller.ask_for_all()

    def on_applied(self, replicas: int) -> None:
        """Note that an envelope has stopped, made or given a role to so many replicas."""
        self.applied_partitions += replicas

    def adopt(self, log: Log, high_watermark: int) -> Partition:
        """Take an open log as a replica, which has no role yet."""
        partition = Partition(
            self._runtime,
            self.config,
            self.dirs,
            self.upkeep,
            self._suspects,
            log,
            high_watermark,
        )
        partition.count_in(self.counters.begin(log.topic))
        self.partitions[partition.key] = partition
        self._by_log[log] = partition
        log_dir = self.dirs.of(log)
        if log_dir.failure is not None:  # while the log was opened
            partition.put_out_of_service(_why_out(log_dir))
        return partition

    def drop(self, partition: Partition, why: str) -> None:
        """Stop serving the replica; `logs` decides about its files."""
        self.fetchers.forget(partition.key)
        partition.stop_role(why)
        del self.partitions[partition.key]
        del self._by_log[partition.log]
        self.counters.end(partition.log.topic)
        self.upkeep.forget(partition)

    # Background

    async def run(self) -> None:
        """Fetchers, flushes, ticks and checkpoints, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self.fetchers.run_in(group)
            group.create_task(self.dirs.run(self._on_flushed), name="flushers")
            group.create_task(self.roles.ticks.run(), name="isr-tick")
            group.create_task(self._load_late(), name="late-loading")
            group.create_task(self._expire_producers(), name="producer-expiry")
            group.create_task(self.damage.run(), name="damage-watch")
            group.create_task(self.scrubber.run(), name="scrub")
            group.create_task(self.upkeep.run(), name="log-upkeep")

    def _on_dir_failed(self, log_dir: LogDir) -> None:
        """Stop the directory's replicas: they serve nothing until the broker restarts on a sound
        directory.
        """
        for partition in self._all():
            if self.dirs.of(partition.log) is log_dir:
                why = _why_out(log_dir)
                partition.put_out_of_service(why)
                self.fetchers.forget(partition.key)
                partition.stop_role(why)
        self._controller.report_offline()

    def _on_flushed(self, log: Log) -> None:
        partition = self._by_log.get(log)
        if partition is not None:
            partition.on_flushed()
            self.fetchers.on_flushed(partition.key)

    async def _expire_producers(self) -> None:
        """Forget producers that have sent nothing for so long (I-60)."""
        interval_ms = self.config.current.producer_id_expiration_check_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            expiration_ms = self.config.current.producer_id_expiration_ms
            for partition in self.partitions.values():
                partition.producers.expiration_ms = expiration_ms
                partition.producers.expire(monotonic_ms(self._runtime.clock))

    def _all(self) -> list[Partition]:
        return list(self.partitions.values())

    async def close(self) -> None:
        """Stop serving, flush everything, write the checkpoints. `run` must have been cancelled
        before.

        Raises OSError if anything could not be flushed: then no clean-shutdown marker may be
        written (I-52).
        """
        for partition in self.partitions.values():
            partition.stop_role("the broker is shutting down")
        for partition in self.partitions.values():
            if self.dirs.of(partition.log).failure is None:
                async with partition.gate:
                    await partition.in_disk_pool(partition.log.close)
        await self.upkeep.checkpoints.save()
        await self.dirs.recorded()  # a push is answered before it is, where a disk hangs


def _why_out(log_dir: LogDir) -> str:
    return f"{log_dir.path} is out of service: {log_dir.failure}"
