"""The broker's life from the controller's view: registration, heartbeats, controlled shutdown.

A process is one incarnation. Its broker epoch comes from its registration. A process that learns of
another incarnation with its id ends at once and never registers again (P-73). Otherwise its writes
and fetches would count for a replica that it is not.

A heartbeat stream has no deadline of its own; each message has (P-80). The arrival of a heartbeat
keeps the session, so it contains nothing that takes time to compute.
"""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio

from strandline_broker.core.compatibility import OURS, Levels, Server, check_fit, levels_of
from strandline_broker.core.registration import Registration, kafka_features
from strandline_broker.hosts.common.controller_calls import Heartbeat
from strandline_broker.hosts.common.replaced import end_replaced
from strandline_broker.storage.segment.open_segments import replicas_max
from strandline_proto.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    NotController,
    StaleBrokerEpoch,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId
from strandline_runtime.cancellation import deliver_cancellation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.controller_calls import (
        ControllerCalls,
        HeartbeatAnswer,
        OfflineReplicas,
        Registered,
        ReplicaLoss,
    )
    from strandline_broker.hosts.replica.to_controller import ReplicaReports
    from strandline_broker.storage.directory.broker_directories import BrokerDirectories
    from strandline_runtime.runtime import Runtime

REGISTRATION_TIMEOUT_S: Final = 5.0
RETRY_S_MIN: Final = 0.05
RETRY_S_MAX: Final = 0.5
COMPLAINT_S: Final = 10.0
"""Time between two log lines that say the same."""
QUIET_START_S: Final = 1.0
DUPLICATE_WAIT_S: Final = 12.0
"""Longer than the default session (9 s): a dead owner of our id has lost it by then."""
SURE: Final = 0.75
"""Share of a session for which an answer counts: the controller's clock may be faster than this
broker's.
"""
SESSION_S: Final = 9.0
"""The default session timeout, for a controller that does not report one."""
ANSWER_TIMEOUT_S_MIN: Final = 1.0
SETTLED_GAP_S: Final = 0.2
UNSETTLED_GAP_S: Final = 0.02
UNSETTLED_INTERVAL_S: Final = 0.25
"""Heartbeat interval while fenced or shutting down: the broker waits for the controller."""
STRAYS_TOLD_MAX: Final = 20
"""Limit of strays in one report: the operator has to check the directories anyway."""
GIVE_UP_CONTROLLER_S: Final = 1.0
"""The longest time that a shutdown waits for a controller that cannot be reached."""


class CannotStart(Exception):
    """The broker must not run. The message is one line, with the remedy."""


class BrokerState(enum.Enum):
    """The broker's state as far as this process knows (Kafka's BrokerControlState)."""

    STARTING = "starting"
    FENCED = "fenced"
    UNFENCED = "unfenced"
    SHUTTING_DOWN = "controlled shutdown"


class _NotRegistered(Exception):
    """The controller does not know this broker id: register again."""


class BrokerLifecycle:
    """The broker's life: `run` registers and sends heartbeats until it is cancelled; `shut_down`
    requests a controlled shutdown.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        directory: BrokerDirectories,
        metadata: MetadataCache,
        controller: ControllerCalls,
        *,
        endpoints: Sequence[Endpoint],
        build: str,
        levels: Levels = OURS,
    ) -> None:
        self.incarnation_id = runtime.random_id().hex()
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self.state = BrokerState.STARTING
        self.registered = asyncio.Event()
        self.unfenced = asyncio.Event()
        self.last_answer_s: float | None = None
        """Monotonic time of the controller's last answer to a heartbeat."""
        self._runtime = runtime
        self._config = config
        self._directory = directory
        self._metadata = metadata
        self._controller = controller
        self._endpoints = endpoints
        self._here = Server(f"broker {config.node_id}", build, levels)
        self._log = runtime.log
        self._loaded = False
        self._shutting_down = False
        self._may_stop = asyncio.Event()
        self._let_go = False
        self._wake = asyncio.Event()
        self._unreachable_since_s: float | None = None
        self._quiet_until_s = 0.0
        self._known_at: dict[tuple[bytes, int], int] = {}
        self._heartbeats = 0
        self._session_s = SESSION_S
        self._asked_s = self._sure_until_s = 0.0

    def is_sure(self) -> bool:
        """True if the controller cannot have elected another leader after this broker's session
        ended. The controller has answered a heartbeat less than `SURE` of a session ago, and has
        not fenced the broker.
        """
        unfenced = self.state is BrokerState.UNFENCED
        return unfenced and self._runtime.clock.monotonic() < self._sure_until_s

    def why_not_serving(self) -> str | None:
        """The reason why clients are not served; None if they are."""
        match self.state:
            case BrokerState.STARTING:
                return f"not registered with the controller at {self._controller.target}"
            case BrokerState.FENCED:
                return "the controller has fenced this broker"
            case BrokerState.SHUTTING_DOWN:
                return "the broker is shutting down"
            case BrokerState.UNFENCED:
                return None

    @property
    def is_recovering(self) -> bool:
        """True from the registration until all logs are open."""
        return self.state is BrokerState.FENCED and not self._loaded

    def report_offline(self) -> None:
        """Send a heartbeat soon, with news of offline replicas."""
        self._wake.set()

    def offline_known_at(self, key: tuple[bytes, int]) -> int | None:
        """The controller's log end when it first knew, in one run, that a replica is offline; None
        if it does not know.
        """
        return self._known_at.get(key)

    def epoch(self) -> BrokerEpoch:
        """The broker epoch of this incarnation; -1 before the registration."""
        return self.broker_epoch

    def session_s(self) -> float:
        """The time that the controller waits for a heartbeat."""
        return self._session_s

    def on_loaded(self) -> None:
        """Note that all logs are open: the broker requests to be unfenced once it has applied a
        snapshot.
        """
        self._loaded = True
        self._wake.set()

    def on_applied(self) -> None:
        """Note that an envelope has been applied."""
        self._wake.set()

    async def run(self, replicas: ReplicaReports) -> None:
        """Register, and report on `replicas` with each heartbeat."""
        # A controller that starts together with its brokers is no reason for a warning.
        self._quiet_until_s = self._runtime.clock.monotonic() + QUIET_START_S
        await self._register()
        while True:
            try:
                await self._beat(replicas)
            except _NotRegistered:
                self._log.warning("the controller does not know this broker; registering again")
                await self._register()
            except (grpc.RpcError, asyncio.InvalidStateError, TimeoutError) as error:
                deliver_cancellation()
                self._unreachable("the heartbeat stream broke", error)
                await self._pause_before_retry(RETRY_S_MIN)

    @property
    def may_stop(self) -> bool:
        """True if the controller has granted the shutdown."""
        return self._let_go

    async def shut_down(self) -> None:
        """Hand over leaderships; returns when the controller grants the shutdown, or when waiting
        is useless.
        """
        self.state = BrokerState.SHUTTING_DOWN
        self._shutting_down = True
        self._wake.set()
        if not self.registered.is_set():
            return
        limit_s = self._config.controlled_shutdown_max_wait_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                await self._may_stop.wait()
        except TimeoutError:
            self._log.warning("controlled shutdown was not granted in time; stopping anyway")

    # Registration

    async def _register(self) -> None:
        """Retries until the controller answers; raises CannotStart where retrying is no use."""
        started_s = self._runtime.clock.monotonic()
        pause_s = RETRY_S_MIN
        while True:
            try:
                response = await self._controller.register(
                    self._registration(), timeout_s=REGISTRATION_TIMEOUT_S
                )
            except grpc.RpcError as error:
                self._unreachable("registration", error)
            else:
                refusal = response.error or self._misfit(response) or self._other_store(response)
                if refusal is None:
                    await self._on_registered(response)
                    return
                self._on_registration_refused(refusal, started_s, by_us=response.error is None)
            await self._pause_before_retry(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    def _registration(self) -> Registration:
        directory, config = self._directory, self._config
        return Registration(
            broker_id=BrokerId(config.node_id),
            cluster_id=directory.cluster_id or "",
            incarnation_id=self.incarnation_id,
            directory_id=directory.directory_id,
            flush_policy=config.flush_policy,
            pid=self._runtime.pid,
            version=self._here.build,
            store_id=self._metadata.store_id,
            controller_epoch=self._metadata.controller_epoch,
            metadata_offset=self._metadata.highest_offset,
            listeners=tuple(self._endpoints),
            rack=config.broker_rack,
            log_dirs=tuple(config.log_dirs),
            previous_broker_epoch=BrokerEpoch(directory.previous_broker_epoch),
            inter_broker_listener=config.inter_broker_listener_name,
            replicas_max=replicas_max(self._runtime.descriptors),
            features=(
                *self._here.levels.features,
                *kafka_features(each.name for each in config.kafka_listeners),
            ),
        )

    def _misfit(self, response: Registered) -> WireError | None:
        """A controller that does not know the levels of this broker has let it in."""
        name = f"the controller at {self._controller.target}"
        try:
            there = Server(name, response.version, levels_of(response.features))
            check_fit(self._here, there)
        except WireError as error:
            return error
        return None

    def _other_store(self, response: Registered) -> InconsistentClusterId | None:
        """A controller that this broker must not obey: its store is not the one it knows (P-76)."""
        known = self._metadata.store_id
        if not known or response.store_id in ("", known):
            return None
        return InconsistentClusterId(
            f"the controller has store {response.store_id}, but "
            f"{', '.join(self._config.log_dirs)} has applied the log of store {known}; start the "
            "controller on its original data directory"
        )

    async def _on_registered(self, response: Registered) -> None:
        if not self._directory.cluster_id:
            directory, cluster_id = self._directory, response.cluster_id
            directory.set_cluster_id(cluster_id)
        self._metadata.cluster_id = response.cluster_id
        self.broker_epoch = response.broker_epoch
        self._session_s = response.session_s or SESSION_S
        self._known_at = {}
        self.state = BrokerState.SHUTTING_DOWN if self._shutting_down else BrokerState.FENCED
        self._unreachable_since_s = None
        self.registered.set()
        self._log.info("registered", broker_epoch=self.broker_epoch, cluster_id=response.cluster_id)

    def _on_registration_refused(self, error: WireError, started_s: float, *, by_us: bool) -> None:
        now_s = self._runtime.clock.monotonic()
        if isinstance(error, DuplicateBrokerRegistration):
            if now_s - started_s > DUPLICATE_WAIT_S:
                raise CannotStart(str(error))
            self._complain(f"{error}; trying again")
        elif isinstance(error, StaleBrokerEpoch):
            end_replaced(self._runtime, self._config.node_id, str(error))
        elif error.retriable:
            self._complain(f"the controller does not accept registrations yet: {error}")
        elif (
            isinstance(error, (InconsistentClusterId, UnsupportedVersion))
            and self.broker_epoch != NO_BROKER_EPOCH
        ):
            # The broker served under the right controller. Another one in its place is no
            # reason to end: the broker continues, and the right one may return (P-76).
            self._complain(f"another controller answers at {self._controller.target}: {error}")
        else:
            controller = f"the controller at {self._controller.target}"
            refusing = ("this broker", controller) if by_us else (controller, "this broker")
            raise CannotStart(f"{' refuses '.join(refusing)}: {error}")

    # Heartbeats

    async def _beat(self, replicas: ReplicaReports) -> None:
        """One heartbeat stream, until it breaks."""
        call = self._controller.heartbeats()
        timeout_s = max(ANSWER_TIMEOUT_S_MIN, 2 * self._config.broker_heartbeat_interval_ms / 1000)
        try:
            while True:
                self._wake.clear()
                told = replicas.offline_replicas()
                # The controller withdraws marks that this request does not name, however late.
                self._known_at = {key: at for key, at in self._known_at.items() if key in told}
                lost = replicas.losses.waiting()
                self._asked_s = self._runtime.clock.monotonic()
                async with asyncio.timeout(timeout_s):
                    await call.write(self._heartbeat(replicas, told, lost))
                    answer = await call.read()
                if answer is None:
                    raise NotController("the controller has ended the heartbeat stream")
                self._on_answer(answer)
                replicas.losses.told(lost)
                self._known_at = {
                    key: self._known_at.get(key, answer.metadata_end_offset) for key in told
                }
                await self._until_next_beat()
        except NotController as error:
            deliver_cancellation()
            self._unreachable("the heartbeat stream was refused", error)
            await self._pause_before_retry(RETRY_S_MIN)
        finally:
            call.cancel()

    def _heartbeat(
        self, replicas: ReplicaReports, offline: OfflineReplicas, lost: list[ReplicaLoss]
    ) -> Heartbeat:
        self._heartbeats += 1
        return Heartbeat(
            number=self._heartbeats,
            broker_id=BrokerId(self._config.node_id),
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata.applied_offset,
            want_fence=not (self._loaded and self._metadata.has_snapshot),
            want_shut_down=self._shutting_down,
            offline_log_dirs=list(self._directory.failed),
            full_log_dirs=sorted(self._directory.full),
            lacks_descriptors=self._directory.lacks_descriptors,
            losses=lost,
            stray_dirs=replicas.strays()[:STRAYS_TOLD_MAX],
            refused_truncations=replicas.refused_truncations(),
            applied_partitions=replicas.applied_partitions,
            offline_replicas=offline,
        )

    def _on_answer(self, answer: HeartbeatAnswer) -> None:
        error = answer.error
        if error is not None:
            if isinstance(error, StaleBrokerEpoch):
                end_replaced(self._runtime, self._config.node_id, str(error))
            if isinstance(error, BrokerIdNotRegistered):
                raise _NotRegistered
            raise NotController(str(error))
        self.last_answer_s = self._runtime.clock.monotonic()
        self._sure_until_s = self._asked_s + SURE * self._session_s
        self._unreachable_since_s = None
        if answer.should_shut_down:
            self._let_go = True
            self._may_stop.set()
        if self._shutting_down:
            return
        state = BrokerState.FENCED if answer.is_fenced else BrokerState.UNFENCED
        if state is not self.state:
            self._log.info("controller answer", state=state.value)
        self.state = state
        if state is BrokerState.UNFENCED:
            self.unfenced.set()
        else:
            self.unfenced.clear()

    async def _until_next_beat(self) -> None:
        """Wait until the interval is over or there is news for the controller, without a tight
        loop.
        """
        settled = self.state is BrokerState.UNFENCED
        interval_s = self._config.broker_heartbeat_interval_ms / 1000
        if not settled:
            interval_s = min(interval_s, UNSETTLED_INTERVAL_S)
        gap_s = min(interval_s, SETTLED_GAP_S if settled else UNSETTLED_GAP_S)
        try:
            async with asyncio.timeout(interval_s):
                await self._wake.wait()
                await asyncio.sleep(gap_s)
        except TimeoutError:
            pass

    # Without an answer

    async def _pause_before_retry(self, pause_s: float) -> None:
        # Jitter keeps brokers that lost the controller together from coming back together.
        await asyncio.sleep(pause_s * (0.75 + 0.5 * self._runtime.rng.random()))

    def _unreachable(self, what: str, error: Exception) -> None:
        now_s = self._runtime.clock.monotonic()
        if self._unreachable_since_s is None:
            self._unreachable_since_s = now_s
        if self._shutting_down and now_s - self._unreachable_since_s >= GIVE_UP_CONTROLLER_S:
            self._may_stop.set()
        why = self._controller.failure(error) if isinstance(error, grpc.RpcError) else error
        self._complain(f"{what}: {why or type(error).__name__}; trying again")

    def _complain(self, message: str) -> None:
        now_s = self._runtime.clock.monotonic()
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + COMPLAINT_S
            self._log.warning(message)
