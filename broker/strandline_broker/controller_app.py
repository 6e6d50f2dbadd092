"""A controller process: its parts, its start and its stop.

Start: lock the data directory, replay the log, bind the listeners, write a new controller epoch
durably, and only then answer. Brokers continue to serve records meanwhile.

Stop: the controller notifies no broker, because its decisions are durable already.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.config.keys import dynamic_parsers, read_only_keys
from strandline_broker.config.text import shared_values
from strandline_broker.config.unsupported import is_not_yet, refusal_at_run_time
from strandline_broker.core.compatibility import OURS, Levels, Server
from strandline_broker.core.controller.brokers.registration import check_running
from strandline_broker.core.controller.log.records import LaterRecord
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.balance import BalanceSettings
from strandline_broker.core.controller.topics.configs import ServerKeys
from strandline_broker.core.controller.topics.internal_topics import InternalTopic
from strandline_broker.core.controller.topics.topics import TopicDefaults
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from strandline_broker.hosts.controller.controller import Controller
from strandline_broker.hosts.controller.controller_metrics import ControllerMetrics
from strandline_broker.hosts.controller.pipeline import replay_log
from strandline_broker.hosts.controller.settings import ControllerSettings, Identity, SnapshotLimits
from strandline_broker.hosts.member.lifecycle import CannotStart
from strandline_broker.metrics_server import Monitored, serve_http
from strandline_broker.rpc.cluster.push_codec import PushTranslator
from strandline_broker.rpc.controller.broker_link import BrokerLinks
from strandline_broker.rpc.controller.brokers import BrokersRpc
from strandline_broker.rpc.controller.configs import AlterConfigsRpc
from strandline_broker.rpc.controller.elections import ElectionsRpc
from strandline_broker.rpc.controller.partitions import PartitionsRpc
from strandline_broker.rpc.controller.reassignments import ReassignmentsRpc
from strandline_broker.rpc.controller.service import (
    CONTROLLER_SERVICE,
    Service,
    add_controller_service,
)
from strandline_broker.rpc.controller.topics import ClusterRpc, TopicsRpc
from strandline_broker.rpc.lazy_service import add_standard_services
from strandline_broker.rpc.watch.service import WATCH_SERVICE, add_watch_service
from strandline_broker.storage.controller.metadata_log import MetadataLog, NoRoom, check_identity
from strandline_broker.storage.controller.metadata_snapshot import LaterSnapshot
from strandline_broker.storage.directory.directory import DataDirectory, DirectoryError
from strandline_broker.storage.files.damage import DamagedLog
from strandline_broker.telemetry import ServerMetrics, watch_event_loop
from strandline_proto.errors import UnsupportedVersion, WireError
from strandline_proto.ids import BrokerId, topic_id_text

if TYPE_CHECKING:
    import grpc.aio

    from strandline_broker.config.keys import ControllerConfig, Listener
    from strandline_broker.hosts.watch.draft import Source
    from strandline_runtime.runtime import Runtime

STOP_GRACE_S: Final = 0.1
"""Time for calls that are about to answer. Heartbeat streams never end by themselves."""


class ControllerProcess:
    """One controller. Its parts are plain attributes, so that a test oracle can inspect them."""

    def __init__(
        self,
        runtime: Runtime,
        config: ControllerConfig,
        build: str,
        *,
        levels: Levels = OURS,
        has_groups: bool = True,
        has_transactions: bool = True,
    ) -> None:
        """Lock the data directory and replay the log; raises CannotStart."""
        self._runtime = runtime
        self._config = config
        self._build = build
        here = Server("this controller", build, levels)
        self.directory = _open_directory(runtime, config)
        self.state = ControllerState()
        self.log = _replayed(runtime, self.directory, self.state, here)
        assert self.directory.cluster_id is not None
        identity = Identity(
            node_id=BrokerId(config.node_id),
            cluster_id=self.directory.cluster_id,
            store_id=self.directory.ensure_store_id(),
        )
        settings = ControllerSettings(
            session_ms=config.broker_session_timeout_ms,
            min_insync_replicas=config.min_insync_replicas,
            unclean_election=config.unclean_leader_election_enable,
            topic_defaults=TopicDefaults(config.num_partitions, config.default_replication_factor),
            server_keys=ServerKeys(
                dynamic_parsers(), read_only_keys(), refusal_at_run_time, is_not_yet
            ),
            balance=BalanceSettings(
                enabled=config.auto_leader_rebalance_enable,
                interval_s=config.leader_imbalance_check_interval_seconds,
                percentage=config.leader_imbalance_per_broker_percentage,
            ),
            snapshots=SnapshotLimits(
                max_bytes=config.metadata_log_max_record_bytes_between_snapshots,
                interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
            internal_topics=_internal_topics(
                config, has_groups=has_groups, has_transactions=has_transactions
            ),
            here=here,
        )
        dial = BrokerLinks(
            runtime.network,
            PushTranslator(identity, shared_values(config)),
            runtime.serial_executor("push-translation"),
        )
        self.controller = Controller(runtime, identity, settings, self.state, self.log, dial)
        self.metrics = ServerMetrics(runtime.metrics, runtime.clock, build)
        runtime.metrics.register(ControllerMetrics(self.controller))
        self.server = runtime.network.server(runtime.descriptors // 2)
        self.ports: dict[str, int] = {}
        self._why_not_ready: str | None = "the controller is starting"

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises CannotStart."""
        for listener in self._config.listeners:
            self.ports[listener.name] = _bind(self.server, listener)
        first = self._config.listeners[0]
        host, port = first.host, self.ports[first.name]
        service = Service(
            self._runtime,
            self.metrics,
            BrokersRpc(self.controller),
            TopicsRpc(self.controller),
            AlterConfigsRpc(self.controller),
            ElectionsRpc(self.controller),
            PartitionsRpc(self.controller),
            ReassignmentsRpc(self.controller),
            ClusterRpc(
                self.controller,
                pid=self._runtime.pid,
                host=host,
                port=port,
                build=self._build,
            ),
        )
        add_controller_service(self.server, service)
        guarded = partial(Service, self._runtime, self.metrics)
        add_watch_service(self.server, guarded, self._watch_source)
        services = (CONTROLLER_SERVICE, WATCH_SERVICE)
        add_standard_services(self.server, services, lambda: True, guarded)
        try:
            await self.controller.start()
            await self._serve_until(stop, f"{host}:{port}")
        except NoRoom as full:
            raise CannotStart(str(full)) from full
        except BaseExceptionGroup as group:
            self._runtime.log.error("a background task failed", exc_info=group)
            self._runtime.exit(f"a background task failed: {group.exceptions[0]!r}")
        finally:
            self.controller.close()
            self._close_log()
            self.directory.close()
        self._runtime.log.info("stopped")

    def _watch_source(self) -> Source:
        from strandline_broker.hosts.watch.controller import ControllerSource

        return ControllerSource(self._runtime.clock, self.controller)

    def _close_log(self) -> None:
        """Closes the log. Only indexes can fail on a full disk here, and a start can do without
        them: decisions are durable already.
        """
        try:
            self.log.close()
        except (OSError, WireError) as error:
            self._runtime.log.warning(
                "the log was not closed properly and is checked at the next start", why=str(error)
            )

    async def _serve_until(self, stop: asyncio.Event, address: str) -> None:
        identity, state = self.controller.identity, self.state
        async with asyncio.TaskGroup() as tasks:
            work = [
                tasks.create_task(self.controller.run()),
                tasks.create_task(self._watch_event_loop()),
            ]
            if self._config.metrics_listeners:
                work.append(tasks.create_task(self._serve_http()))
            await self.server.start()
            self._why_not_ready = None
            self._runtime.log.info(
                "serving",
                address=address,
                cluster_id=identity.cluster_id,
                controller_epoch=state.controller_epoch,
                brokers=len(state.brokers),
                topics=len(state.topics),
                pid=self._runtime.pid,
            )
            await stop.wait()
            self._why_not_ready = "the controller is shutting down"
            for task in work:
                task.cancel()
            await self.server.stop(STOP_GRACE_S)

    async def _serve_http(self) -> None:
        monitored = Monitored(
            self._runtime.metrics,
            lambda: self._why_not_ready,
            self._runtime.serial_executor("metrics"),
        )
        await serve_http(monitored, self._config.metrics_listeners, self._runtime.log)

    async def _watch_event_loop(self) -> None:
        interval_s = self._config.metrics_event_loop_interval_ms / 1000
        await watch_event_loop(self._runtime, self.metrics, interval_s)


async def run_controller(
    runtime: Runtime, config: ControllerConfig, stop: asyncio.Event, *, build: str = ""
) -> None:
    """A controller from start to end. Raises CannotStart with a one-line reason."""
    await ControllerProcess(runtime, config, build).run(stop)


def _internal_topics(
    config: ControllerConfig, *, has_groups: bool, has_transactions: bool
) -> tuple[InternalTopic, ...]:
    """The topics in the order of their creation; without groups there are no transactions."""
    groups = InternalTopic(
        CONSUMER_OFFSETS,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        config.offsets_topic_segment_bytes,
    )
    transactions = InternalTopic(
        TRANSACTION_STATE,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        config.transaction_state_log_segment_bytes,
        config.transaction_state_log_min_isr,
    )
    if not has_groups:
        return ()
    return (groups, transactions) if has_transactions else (groups,)


def _open_directory(runtime: Runtime, config: ControllerConfig) -> DataDirectory:
    try:
        check_identity(runtime.fs, config.log_dir)
        directory = DataDirectory.open(
            runtime.fs,
            config.log_dir,
            node_id=config.node_id,
            cluster_id=config.cluster_id or None,
            new_id=runtime.random_id,
            pid=runtime.pid,
        )
        if not directory.cluster_id:
            directory.set_cluster_id(config.cluster_id or topic_id_text(runtime.random_id()))
    except DirectoryError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(f"cannot open the data directory {config.log_dir}: {error}") from error
    return directory


def _replayed(
    runtime: Runtime, directory: DataDirectory, state: ControllerState, here: Server
) -> MetadataLog:
    """The log, which has brought `state` to its end. Raises CannotStart."""
    try:
        log = _open_log(runtime, directory)
        replay_log(state, log)
        check_running(state, here)
    except (LaterSnapshot, LaterRecord) as error:
        raise CannotStart(
            f"a later build than this one ({here.build or 'unknown'}) has written the log in"
            f" {directory.path}: {error}. Start the controller with that build, or a later one;"
            " nothing was changed"
        ) from error
    except UnsupportedVersion as error:
        raise CannotStart(f"{error}; nothing was changed") from error
    except (ValueError, WireError) as error:
        raise CannotStart(f"the log in {directory.path} cannot be read: {error}") from error
    return log


def _open_log(runtime: Runtime, directory: DataDirectory) -> MetadataLog:
    def report(message: str) -> None:
        runtime.log.warning("controller log", report=message)

    try:
        return MetadataLog.open(runtime.fs, directory, report)
    except (DirectoryError, DamagedLog) as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(f"the controller's log cannot be opened: {error}") from error


def _bind(server: grpc.aio.Server, listener: Listener) -> int:
    try:
        port = server.add_insecure_port(listener.target)
    except RuntimeError:
        port = 0
    if port == 0:
        raise CannotStart(
            f"cannot listen on {listener}: the port is in use, or the address is not this machine's"
        )
    return port
