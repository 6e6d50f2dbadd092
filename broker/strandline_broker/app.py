"""A broker process: its parts, its start and its shutdown in order.

Start: lock the data directory, bind the listeners, then load the logs and register at the same
time. The controller learns of the new incarnation early. The broker stays fenced until its logs are
loaded and a first snapshot is applied.

Stop: request a controlled shutdown, stop the background work, stop serving, flush and close the
logs. The clean-shutdown marker is written last, and only if all of that succeeded (I-52).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from strandline_broker.config.listeners import range_listener
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.hosts.common.events import Events
from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
from strandline_broker.hosts.groups.coordinator import group_shards
from strandline_broker.hosts.groups.group_settings import group_settings
from strandline_broker.hosts.groups.markers import write_marker
from strandline_broker.hosts.member.envelopes import Envelopes
from strandline_broker.hosts.member.lifecycle import BrokerLifecycle, CannotStart
from strandline_broker.hosts.member.producer_ids import ProducerIds
from strandline_broker.hosts.member.push import PushReceiver
from strandline_broker.hosts.member.push_streams import PushStreams
from strandline_broker.hosts.member.replica_manager import ReplicaManager
from strandline_broker.hosts.replica.isr_changes import IsrChanges
from strandline_broker.hosts.replica.record_check import RecordChecks, warn_of_slow_checks
from strandline_broker.hosts.reporting.broker_metrics import BrokerMetrics
from strandline_broker.hosts.reporting.group_lag import GroupLag
from strandline_broker.hosts.reporting.replica_metrics import ReplicaMetrics
from strandline_broker.hosts.serving.applied_views import AppliedViews
from strandline_broker.hosts.serving.configs import ConfigsService
from strandline_broker.hosts.serving.delete_records import DeleteRecordsService
from strandline_broker.hosts.serving.fetch_range import FetchRangeService
from strandline_broker.hosts.serving.log_dirs import LogDirsService
from strandline_broker.hosts.serving.offsets import OffsetsService
from strandline_broker.hosts.serving.produce import ProduceService
from strandline_broker.hosts.serving.producers.describe import ProducersService
from strandline_broker.hosts.serving.producers.markers import MarkersService
from strandline_broker.hosts.transactions.coordinator import transaction_shards
from strandline_broker.hosts.transactions.marker_sender import MarkerSender
from strandline_broker.hosts.transactions.verifying import Verifying
from strandline_broker.listeners import Listeners
from strandline_broker.metrics_server import Monitored, serve_http
from strandline_broker.rpc.broker_service import Service
from strandline_broker.rpc.cluster.admin import AdminRpc
from strandline_broker.rpc.cluster.configs import ConfigsRpc
from strandline_broker.rpc.cluster.controller_link import ControllerLink
from strandline_broker.rpc.cluster.identify import IdentifyRpc
from strandline_broker.rpc.cluster.log_dirs import LogDirsRpc
from strandline_broker.rpc.cluster.metadata import MetadataRpc
from strandline_broker.rpc.cluster.push import PushRpc
from strandline_broker.rpc.cluster.replicas_info import ReplicasInfoRpc
from strandline_broker.rpc.cluster.truncations import TruncationsRpc
from strandline_broker.rpc.groups.calls import GroupCalls
from strandline_broker.rpc.records.delete_records import DeleteRecordsRpc
from strandline_broker.rpc.records.end_offsets import EndOffsets
from strandline_broker.rpc.records.fetch import FetchRpc
from strandline_broker.rpc.records.fetch_client import FetchClient
from strandline_broker.rpc.records.fetch_range import FetchRangeRpc
from strandline_broker.rpc.records.offsets import OffsetsRpc
from strandline_broker.rpc.records.produce import ProduceRpc
from strandline_broker.rpc.records.producer_ids import ProducerIdsRpc
from strandline_broker.rpc.transactions.broker_client import BrokerClient
from strandline_broker.rpc.transactions.calls import CoordinatorCalls, TransactionCalls
from strandline_broker.rpc.transactions.markers import MarkersRpc
from strandline_broker.rpc.transactions.own_coordinator import OwnCoordinator
from strandline_broker.rpc.transactions.partition_producers import PartitionProducersRpc
from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_broker.storage.directory.directory import DirectoryError
from strandline_broker.storage.segment.open_segments import sealed_max
from strandline_broker.telemetry import ServerMetrics, watch_event_loop
from strandline_proto.errors import WireError
from strandline_proto.ids import NO_BROKER_EPOCH, BrokerId, ControllerEpoch, MetadataOffset

if TYPE_CHECKING:
    from strandline_broker.config.keys import BrokerConfig, Listener
    from strandline_broker.hosts.watch.draft import Source
    from strandline_broker.kafka.services import Services
    from strandline_runtime.runtime import Runtime


class ControllerSide:
    """`ToController` of a running broker: heartbeats, AlterPartition, the push stream."""

    def __init__(
        self, lifecycle: BrokerLifecycle, isr_changes: IsrChanges, streams: PushStreams
    ) -> None:
        self.broker_epoch = lifecycle.epoch
        self.is_sure = lifecycle.is_sure
        self.propose_isr = isr_changes.propose
        self.report_offline = lifecycle.report_offline
        self.offline_known_at = lifecycle.offline_known_at
        self.ask_for_all = streams.ask_for_all


class Broker:
    """One broker. Its parts are plain attributes, so that a test oracle can inspect them."""

    def __init__(self, runtime: Runtime, config: BrokerConfig, build: str) -> None:
        """Opens and locks the data directory; raises CannotStart."""
        self._runtime = runtime
        self._config = config
        self._build_id = build
        self.broker_id = BrokerId(config.node_id)
        self.directories = _open_directories(runtime, config)
        for finding in self.directories.findings:
            runtime.log.warning("data directory", finding=finding)
        for path, why in self.directories.failed.items():
            runtime.log.error("data directory out of service", path=path, reason=why)
        state = self.directories.state
        self.metadata = MetadataCache(
            cluster_id=self.directories.cluster_id or "",
            store_id=state.store_id or "",
            known_controller_epoch=ControllerEpoch(state.controller_epoch),
            known_offset=MetadataOffset(state.metadata_offset),
        )
        self.views = AppliedViews(self.metadata)
        self.link = ControllerLink(runtime, config.controller_target)
        self.metrics = ServerMetrics(runtime.metrics, runtime.clock, build)
        self.listeners = Listeners(runtime, config, self.metrics)
        self.is_loaded = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then shut down in order. Raises CannotStart."""
        self._build()
        self._report()
        try:
            await self.listeners.bind(
                self._broker_service,
                self._replica_service,
                self._kafka_services,
                self._watch_source,
                is_serving=self._is_serving,
            )
            await self._serve_until(stop)
        except BaseExceptionGroup as group:
            _reraise_cannot_start(group)
            self._runtime.log.error("a background task failed", exc_info=group)
            self._runtime.exit(f"a background task failed: {group.exceptions[0]!r}")
        finally:
            await self.listeners.stop()
            await self._brokers.close()
            await self.link.close()
        await self._close()

    def _build(self) -> None:
        runtime, config = self._runtime, self._config
        self.lifecycle = BrokerLifecycle(
            runtime,
            config,
            self.directories,
            self.metadata,
            self.link,
            endpoints=self.listeners.endpoints,
            build=self._build_id,
        )
        epoch, is_sure = self.lifecycle.epoch, self.lifecycle.is_sure
        self.isr_changes = IsrChanges(runtime, self.link, self.broker_id, epoch)
        self.producer_ids = ProducerIds(self.link, self.broker_id, epoch)
        events, streams = Events(runtime.clock), PushStreams(runtime)
        self.shards = group_shards(runtime, config, self.metadata, is_sure, events)
        self.transactions = transaction_shards(
            runtime,
            config,
            self.metadata,
            is_sure,
            self.producer_ids,
            lambda: self.marker_sender,
        )
        controller = ControllerSide(self.lifecycle, self.isr_changes, streams)
        self.replicas = ReplicaManager(
            runtime,
            config,
            self.directories,
            self.metadata,
            controller,
            open_fetch=FetchClient(runtime.network),
            observers=(self.shards, self.transactions),
            events=events,
        )
        self._build_transactions()
        thread = runtime.serial_executor("record-checks")
        self._record_checks = RecordChecks(runtime.clock, self.replicas.partitions, thread)
        self._copies_out = LeaderThrottle(runtime.clock, self.replicas.config)
        warn_of_slow_checks(runtime.log)
        self.receiver = self._new_receiver(controller, streams)

    def _new_receiver(self, controller: ControllerSide, streams: PushStreams) -> PushReceiver:
        runtime = self._runtime
        return PushReceiver(
            runtime,
            self.metadata,
            self.replicas,
            Envelopes(
                runtime,
                self.metadata,
                controller,
                self.replicas,
                config=self.replicas.config,
                eligibility=self.replicas.eligibility,
                roles=self.replicas.roles,
                logs=self.replicas.logs,
                fetchers=self.replicas.fetchers,
                session_s=self.lifecycle.session_s,
            ),
            streams,
            broker_epoch=self.lifecycle.epoch,
            on_applied=self._on_applied,
        )

    def _build_transactions(self) -> None:
        """Makes what connects partitions, their transactions and the coordinators of these."""
        runtime, metadata = self._runtime, self.metadata
        listener = self._config.inter_broker_listener_name
        self._brokers = BrokerClient(runtime)
        self._markers = MarkersService(self.replicas, metadata, partial(write_marker, self.shards))
        self._coordinator = CoordinatorCalls(
            runtime, self.transactions, metadata, self.producer_ids
        )
        here = OwnCoordinator(self._coordinator)
        self.verifying = Verifying(self.broker_id, metadata, listener, self._brokers, here)
        self.marker_sender = MarkerSender(
            runtime, self.broker_id, metadata, listener, self._brokers, self._markers.write
        )

    def _report(self) -> None:
        registry = self._runtime.metrics
        registry.register(BrokerMetrics(self.replicas, lambda: self.lifecycle.state))
        registry.register(ReplicaMetrics(self.replicas))
        self._lag = GroupLag(
            self.shards.applications,
            self.replicas,
            self.metadata,
            EndOffsets(self._runtime.network),
        )
        registry.register(self._lag)

    def _on_applied(self) -> None:
        self.views.published()
        self.shards.published()
        self.transactions.published()
        self.marker_sender.published()
        self.replicas.fetchers.on_published()
        self.lifecycle.on_applied()

    def _is_serving(self) -> bool:
        return self.lifecycle.unfenced.is_set()

    def _broker_service(self, listener: Listener) -> Service:
        clock, metadata, replicas = self._runtime.clock, self.metadata, self.replicas
        times = self.metrics.times
        return Service(
            self._runtime,
            self.metrics,
            ProduceRpc(
                ProduceService(replicas, metadata, self._record_checks, self.verifying),
                metadata,
                listener.name,
                times,
            ),
            FetchRpc(clock, metadata, replicas, self._copies_out, times),
            FetchRangeRpc(FetchRangeService(replicas, metadata)),
            OffsetsRpc(OffsetsService(replicas), metadata),
            DeleteRecordsRpc(DeleteRecordsService(replicas), metadata),
            TruncationsRpc(replicas),
            MetadataRpc(metadata, listener.name, range_listener(self._config, listener.name)),
            AdminRpc(self.link, group_settings(self._config)),
            ReplicasInfoRpc(clock, replicas, metadata),
            LogDirsRpc(LogDirsService(self._runtime.fs, replicas)),
            ConfigsRpc(ConfigsService(self._config, metadata)),
            TransactionCalls(
                self._runtime,
                self.transactions,
                metadata,
                self.producer_ids,
                ProducerIdsRpc(self.producer_ids),
                self.broker_id,
            ),
            PartitionProducersRpc(ProducersService(replicas, metadata), self._markers),
            GroupCalls(self._runtime, self.shards, metadata, listener.name, self.verifying),
        )

    def _kafka_services(self) -> Services:
        from strandline_broker.kafka.services import Services

        return Services(
            runtime=self._runtime,
            metrics=self.metrics,
            config=self._config,
            metadata=self.metadata,
            views=self.views,
            replicas=self.replicas,
            checks=self._record_checks,
            copies=self._copies_out,
            shards=self.shards,
            transactions=self.transactions,
            producer_ids=self.producer_ids,
            controller=self.link,
            verifier=self.verifying,
        )

    def _replica_service(self) -> Service:
        return Service(
            self._runtime,
            self.metrics,
            PushRpc(self.receiver, self._runtime.serial_executor("push-decoding")),
            IdentifyRpc(self.broker_id, self.lifecycle.incarnation_id, self.metadata),
            self._coordinator,
            MarkersRpc(self._markers),
        )

    def _watch_source(self) -> Source:
        from strandline_broker.hosts.watch.broker import BrokerSource

        return BrokerSource(
            self._runtime.clock, self.lifecycle, self.metadata, self.replicas, self.shards
        )

    async def _serve_until(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            heartbeats = group.create_task(self.lifecycle.run(self.replicas), name="lifecycle")
            background = [
                group.create_task(self._replicate(), name="replicas"),
                group.create_task(self.isr_changes.run(), name="isr-changes"),
                group.create_task(self._announce(), name="announce"),
                group.create_task(self._watch_event_loop(), name="event-loop"),
                group.create_task(self.listeners.run(), name="kafka-listeners"),
            ]
            if self._config.metrics_listeners:
                background.append(group.create_task(self._serve_http(), name="metrics"))
            await stop.wait()
            self._runtime.log.info("shutting down")
            await self.lifecycle.shut_down()
            for task in background:
                task.cancel()
            # The heartbeat stream breaks last: the controller then finds no process at our address,
            # and need not wait for a session to end (P-81).
            await self.listeners.stop()
            heartbeats.cancel()

    async def _serve_http(self) -> None:
        monitored = Monitored(
            self._runtime.metrics,
            self._why_not_ready,
            self._runtime.serial_executor("metrics"),
            self._lag.before_scrape,
        )
        await serve_http(monitored, self._config.metrics_listeners, self._runtime.log)

    def _why_not_ready(self) -> str | None:
        if not self.is_loaded:
            return "the logs are loading"
        return self.lifecycle.why_not_serving()

    async def _watch_event_loop(self) -> None:
        interval_s = self._config.metrics_event_loop_interval_ms / 1000
        await watch_event_loop(self._runtime, self.metrics, interval_s)

    async def _replicate(self) -> None:
        """Load every log, then keep replicas and apply pushes until cancelled."""
        await self.replicas.load()
        # Before the first append under it (I-51), and after recovery used the former one.
        await self.replicas.dirs.remember(flush_policy=self._config.flush_policy)
        self.is_loaded = True
        self.lifecycle.on_loaded()
        async with asyncio.TaskGroup() as group:
            # In this order: the first push may start fetchers, which the replica manager owns.
            group.create_task(self.replicas.run(), name="replica-manager")
            group.create_task(self.shards.run(self.replicas.dirs), name="group-coordinators")
            group.create_task(
                self.transactions.run(self.replicas.dirs), name="transaction-coordinators"
            )
            group.create_task(self.verifying.run(), name="verifying")
            group.create_task(self.marker_sender.run(), name="marker-sender")
            group.create_task(self._apply_pushes(), name="push-receiver")

    async def _apply_pushes(self) -> None:
        # A push names the epoch of the incarnation it is for, which is known after registration.
        await self.lifecycle.registered.wait()
        await self.receiver.run()

    async def _announce(self) -> None:
        await self.lifecycle.unfenced.wait()
        self._runtime.log.info(
            "serving",
            listeners=",".join(
                f"{e.listener}://{e.host}:{e.port}" for e in self.listeners.endpoints
            ),
            broker_epoch=self.lifecycle.broker_epoch,
            pid=self._runtime.pid,
        )
        await self.producer_ids.have_some()

    async def _close(self) -> None:
        epoch = self.lifecycle.broker_epoch
        try:
            await self.replicas.close()
            if self.is_loaded and epoch != NO_BROKER_EPOCH:
                self.directories.write_clean_shutdown(epoch)
            self.directories.close()
        except (OSError, WireError) as error:
            raise CannotStart(
                f"the shutdown was not clean, logs are checked at the next start: {error}"
            ) from error
        self._runtime.log.info("stopped")


async def run_broker(
    runtime: Runtime, config: BrokerConfig, stop: asyncio.Event, *, build: str = ""
) -> None:
    """A broker from start to end. Raises CannotStart with a one-line reason."""
    await Broker(runtime, config, build).run(stop)


def _open_directories(runtime: Runtime, config: BrokerConfig) -> BrokerDirectories:
    try:
        return BrokerDirectories.open(
            runtime.fs,
            config.log_dirs,
            node_id=config.node_id,
            cluster_id=None,
            new_id=runtime.random_id,
            sealed_max=sealed_max(runtime.descriptors),
        )
    except DirectoryError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        paths = ", ".join(config.log_dirs)
        raise CannotStart(f"cannot open the data directories {paths}: {error}") from error


def _reraise_cannot_start(group: BaseExceptionGroup[BaseException]) -> None:
    """Raises the error that a user must see first, whatever else failed with it."""
    found = group.subgroup(CannotStart)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]  # type: ignore[assignment] # no group holds anything else here
    if found is not None:
        raise found
