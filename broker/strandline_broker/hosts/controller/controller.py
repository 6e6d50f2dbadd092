"""The controller: its state, the live brokers, and the requests that the wire may make of it.

Each request is one decision in the pipeline. `_on_commit` updates sessions, push streams and
waiting shutdowns in one synchronous step, after the batch is durable and replayed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from strandline_broker.core.controller import push
from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.brokers.fencing import (
    decide_expire,
    decide_fence,
    decide_overdue,
)
from strandline_broker.core.controller.brokers.heartbeat import (
    answer_heartbeat,
    asks_for_change,
    check_told,
    decide_heartbeat,
)
from strandline_broker.core.controller.brokers.registration import (
    StoreMismatch,
    check_registered,
    decide_registration,
)
from strandline_broker.core.controller.brokers.sessions import Sessions
from strandline_broker.core.controller.brokers.shutdown import may_shut_down
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
)
from strandline_broker.core.controller.log.startup import decide_start
from strandline_broker.core.controller.partitions.alter_partition import decide_alter_partition
from strandline_broker.core.controller.partitions.balance import Quiet
from strandline_broker.core.controller.partitions.loss_reports import decide_losses
from strandline_broker.core.controller.partitions.offline_replicas import (
    decide_offline_replicas,
    tells_news,
)
from strandline_broker.core.controller.producer_ids import decide_producer_ids
from strandline_broker.hosts.common.events import Events
from strandline_broker.hosts.controller.administration import Administration
from strandline_broker.hosts.controller.balancer import Balancer
from strandline_broker.hosts.controller.commit_news import CommitNews
from strandline_broker.hosts.controller.controller_metrics import ControllerCounters
from strandline_broker.hosts.controller.failure_detector import FailureDetector
from strandline_broker.hosts.controller.pipeline import NOT_NOW, Pipeline
from strandline_broker.hosts.controller.push_answers import PushAnswers
from strandline_broker.hosts.controller.pusher import Pusher, PushPlan
from strandline_broker.hosts.controller.recoveries import Recoveries
from strandline_broker.hosts.controller.snapshots import Snapshots
from strandline_proto.errors import InvalidRequest
from strandline_proto.ids import NO_LEADER, BrokerEpoch, BrokerId, MetadataOffset, ProducerId

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from strandline_broker.core.controller.brokers.heartbeat import Heartbeat, HeartbeatAnswer
    from strandline_broker.core.controller.log.records import AnyRecord
    from strandline_broker.core.controller.log.state import Broker, ControllerState
    from strandline_broker.core.controller.partitions.alter_partition import (
        Proposal,
        ProposalResult,
    )
    from strandline_broker.core.registration import Registration
    from strandline_broker.hosts.controller.broker_calls import Dial
    from strandline_broker.hosts.controller.metadata_store import MetadataStore
    from strandline_broker.hosts.controller.settings import ControllerSettings, Identity
    from strandline_runtime.runtime import Runtime

SHUTDOWN_WAIT_S: Final = 0.25
"""Well below the time that a broker waits for the answer to its heartbeat."""


class Controller:
    def __init__(
        self,
        runtime: Runtime,
        identity: Identity,
        settings: ControllerSettings,
        state: ControllerState,
        log: MetadataStore,
        dial: Dial,
    ) -> None:
        self.identity = identity
        self.state = state
        self.sessions = Sessions(settings.session_ms)
        self.applied = Applied()
        self.told: dict[BrokerId, Heartbeat] = {}
        """The last heartbeat of each broker, for people only; no decision uses it."""
        self.counters = ControllerCounters()
        self.here = settings.here
        self._settings, self._runtime = settings, runtime
        self._progress = asyncio.Event()
        self._last_snapshot: push.MetadataDelta | None = None
        self._pipeline = Pipeline(runtime, state, log, self._on_commit)
        self.events = Events(runtime.clock)
        self._news = CommitNews(self.events, state)
        self._recoveries = Recoveries(runtime, state, self.applied, submit=self._pipeline.submit)
        self.administration = Administration(
            runtime, settings, state, self._pipeline, self._recoveries.ends
        )
        self._quiet = Quiet(settings.session_ms, self.now_ms())
        self._balancer = Balancer(
            runtime,
            settings.balance,
            state,
            self.applied,
            self._pipeline,
            self._quiet,
            self.now_ms,
        )
        self._snapshots = Snapshots(runtime, state, log, self._pipeline, settings.snapshots)
        self._detector = FailureDetector(runtime, self, dial, cluster_id=identity.cluster_id)
        self._pusher = self._new_pusher(dial)
        self._tasks: asyncio.TaskGroup | None = None

    def _new_pusher(self, dial: Dial) -> Pusher:
        answers = PushAnswers(
            self._runtime,
            self.state,
            submit=self._pipeline.submit,
            store_id=self.identity.store_id,
            spawn=self._spawn,
            on_applied=self._on_applied,
            applied=self.applied,
            refuse_to_run=self._refuse_to_run,
            ends=self._recoveries.ends,
        )
        return Pusher(
            PushPlan(
                runtime=self._runtime,
                snapshot=self._snapshot,
                dial=dial,
                on_answer=answers.on_answer,
                answer_timeout_s=self._settings.session_ms / 1000,
                progressed_ms=self.applied.progressed_ms,
            )
        )

    # -- life

    async def start(self) -> None:
        """Begin a new controller epoch durably (I-31), with a new session for each broker
        (P-61).
        """
        start = decide_start(
            self.state,
            min_insync_replicas=self._settings.min_insync_replicas,
            unclean_election=self._settings.unclean_election,
            build=self.here.build,
        )
        await self._pipeline.commit(start.records)
        self._recoveries.on_started()
        now_ms = self.now_ms()
        for broker in self.state.brokers.values():
            self.sessions.inherit(broker.broker_id, broker.epoch, now_ms)
            self.applied.on_registered(broker.broker_id, broker.epoch)
        for partition in self.state.partitions():
            if partition.leader != NO_LEADER:
                self.applied.on_elected(partition.leader, self.state.last_offset, now_ms)

    async def run(self) -> None:
        """Decide, push and watch until cancelled; call `start` first."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._pipeline.run())
            tasks.create_task(self._pusher.run())
            inherited = [broker for broker in self.state.brokers.values() if not broker.fenced]
            tasks.create_task(self._detector.run(inherited))
            tasks.create_task(self._sweep())
            tasks.create_task(self._balancer.run())
            tasks.create_task(self._snapshots.run())
            tasks.create_task(self.administration.make_internal_topics())

    def close(self) -> None:
        self._snapshots.close()
        self._pipeline.close()

    def now_ms(self) -> int:
        return int(self._runtime.clock.monotonic() * 1000)

    # -- requests

    async def register(self, request: Registration) -> BrokerEpoch:
        def decide() -> Decision[BrokerEpoch | StoreMismatch]:
            return decide_registration(
                self.state,
                self.sessions,
                request,
                cluster_id=self.identity.cluster_id,
                store_id=self.identity.store_id,
                now_ms=self.now_ms(),
                here=self.here,
            )

        answer = await self._pipeline.submit(decide)
        if isinstance(answer, StoreMismatch):
            return self._refuse_to_run(answer)
        return answer

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Extend the session as soon as the heartbeat arrives, before any queue (P-62)."""
        broker = self.state.brokers.get(heartbeat.broker_id)
        if broker is None or broker.epoch != heartbeat.broker_epoch:
            return
        if not self._is_overtaken(heartbeat):
            self.sessions.on_heard(
                broker.broker_id, broker.epoch, self.now_ms(), number=heartbeat.number
            )
            self.applied.on_progress(
                broker.broker_id, broker.epoch, heartbeat.applied_partitions, self.now_ms()
            )
            self._on_applied(broker, heartbeat.current_metadata_offset)

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Carry out a heartbeat. Raises InvalidRequest if a later heartbeat of its sender has
        overtaken it.
        """
        await self._pipeline.until_settled(heartbeat.broker_id)
        self._refuse_overtaken(heartbeat)
        check_told(heartbeat)
        check_registered(self.state.brokers.get(heartbeat.broker_id), self.here)
        has_news = tells_news(self.state, heartbeat)
        self.told[heartbeat.broker_id] = heartbeat
        # First the replicas that it cannot serve, then its fencing: no election happens in between.
        if has_news:
            await self._decide_in_order(decide_offline_replicas, heartbeat)
        if heartbeat.losses:
            lost = await self._pipeline.submit(partial(decide_losses, self.state, heartbeat))
            self._recoveries.on_losses(lost)
        if asks_for_change(self.state, heartbeat):
            await self._decide_in_order(decide_heartbeat, heartbeat)
        if heartbeat.want_shut_down:
            await self._until_shutdown_granted(heartbeat)
        await self._pipeline.until_settled(heartbeat.broker_id)  # the next decision is under way
        return answer_heartbeat(self.state, heartbeat, self.applied.offsets)

    def _is_overtaken(self, heartbeat: Heartbeat) -> bool:
        return self.sessions.is_overtaken(
            heartbeat.broker_id, heartbeat.broker_epoch, heartbeat.number
        )

    def _refuse_overtaken(self, heartbeat: Heartbeat) -> None:
        if self._is_overtaken(heartbeat):
            raise InvalidRequest(
                f"heartbeat {heartbeat.number} of broker {heartbeat.broker_id} came after a later"
                " one, over another stream; it counts for nothing"
            )

    async def _decide_in_order(
        self,
        decide: Callable[[ControllerState, Heartbeat], Decision[bool]],
        heartbeat: Heartbeat,
    ) -> None:
        """Decide in order of arrival. A later heartbeat that arrives during the wait is then
        decided alone.
        """

        def in_order() -> Decision[bool]:
            self._refuse_overtaken(heartbeat)
            return decide(self.state, heartbeat)

        await self._pipeline.submit(in_order)

    async def _until_shutdown_granted(self, heartbeat: Heartbeat) -> None:
        """Hold the answer for a moment: the other brokers must learn of the shutdown first."""
        try:
            async with asyncio.timeout(SHUTDOWN_WAIT_S):
                while not may_shut_down(self.state, heartbeat.broker_id, self.applied.offsets):
                    await self._progress.wait()
        except TimeoutError:
            pass

    async def alter_partition(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, proposals: Sequence[Proposal]
    ) -> list[ProposalResult]:
        return await self._pipeline.submit(
            partial(decide_alter_partition, self.state, broker_id, broker_epoch, proposals)
        )

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch
    ) -> ProducerId:
        return await self._pipeline.submit(
            partial(decide_producer_ids, self.state, broker_id, broker_epoch)
        )

    async def until_applied(self, limit_s: float) -> list[BrokerId]:
        """Wait until every live broker has applied all decisions so far; returns the brokers that
        have not confirmed it in time.
        """
        wanted = self.state.last_offset
        try:
            async with asyncio.timeout(limit_s):
                while self.applied.behind(self.state, wanted):
                    await self._progress.wait()
        except TimeoutError:
            pass
        return self.applied.behind(self.state, wanted)

    # -- live brokers

    def on_heartbeat_stream(self, heartbeat: Heartbeat) -> Callable[[], None]:
        """Record a heartbeat stream, now that its sender is known. Returns the function to call
        when the stream ends.
        """
        broker = self.state.brokers.get(heartbeat.broker_id)
        if broker is None or broker.epoch != heartbeat.broker_epoch:
            return lambda: None  # a process that was replaced says nothing about its successor
        if self._is_overtaken(heartbeat):
            return lambda: None  # the stream that overtook it says whether the broker is there
        generation = self._detector.on_stream_opened(broker.broker_id)
        return partial(self._detector.on_stream_ended, broker, generation)

    def shorten_session(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        half = self._settings.session_ms // 2
        self.sessions.shorten(broker_id, epoch, to_ms=half, now_ms=self.now_ms())

    async def fence_dead(
        self, broker_id: BrokerId, epoch: BrokerEpoch, still_broken: Callable[[], bool]
    ) -> None:
        def decide() -> Decision[bool]:
            if not still_broken():
                return Decision((), answer=False)
            self.sessions.forget(broker_id, epoch)
            return decide_fence(self.state, broker_id, epoch)

        await self._fence(decide, broker_id, epoch, "its process is gone")

    async def _sweep(self) -> None:
        """Fence whose session has ended and leaders that do not know that they lead (I-94)."""
        interval_s = min(0.5, self._settings.session_ms / 10_000)
        swept_ms = self.now_ms()
        self.sessions.on_sweep(swept_ms)  # so that a stall before the first real sweep is seen too
        while True:
            await asyncio.sleep(interval_s)
            now_ms = self.now_ms()
            if not self.sessions.on_sweep(now_ms):
                self.applied.on_own_stall(now_ms - swept_ms, now_ms)
                self._quiet.on_unrest(now_ms)
                self._runtime.log.warning("the controller stalled", ms=now_ms - swept_ms)
            else:
                await self._sweep_once(now_ms)
            swept_ms = now_ms

    async def _sweep_once(self, now_ms: int) -> None:
        while (expired := self.sessions.oldest_expired(now_ms)) is not None:
            expire = partial(self._expire, *expired)
            if not await self._fence(expire, *expired, "its session ended"):
                return  # it is still over at the next sweep
            self.counters.sessions_ended += 1
        if (overdue := self.applied.overdue(now_ms, self.sessions.session_ms)) is not None:
            why = "it has not applied its election for a session"
            await self._fence(partial(self._overdue, *overdue), *overdue, why)
        await self._recoveries.sweep()

    def _expire(self, broker_id: BrokerId, epoch: BrokerEpoch) -> Decision[bool]:
        return decide_expire(self.state, self.sessions, broker_id, epoch, now_ms=self.now_ms())

    def _overdue(self, broker_id: BrokerId, epoch: BrokerEpoch) -> Decision[bool]:
        known = (self.state, self.sessions, self.applied)
        return decide_overdue(*known, broker_id, epoch, now_ms=self.now_ms())

    async def _fence(
        self,
        decide: Callable[[], Decision[bool]],
        broker_id: BrokerId,
        epoch: BrokerEpoch,
        why: str,
    ) -> bool:
        """False: there are too many decisions before this one, or no room for it on the disk."""
        self._news.fenced_for[broker_id] = why
        try:
            fenced = await self._pipeline.submit(decide)
        except NOT_NOW:
            if (known := self.state.brokers.get(broker_id)) is not None and not known.fenced:
                self.sessions.put_back(broker_id, epoch, self.now_ms())
            return False
        finally:
            self._news.fenced_for.pop(broker_id, None)
        if fenced:
            self._runtime.log.info("broker fenced", broker=broker_id, epoch=epoch, why=why)
        return True

    # -- the effects of commits and answers

    def _on_commit(self, records: Sequence[AnyRecord], envelope: push.MetadataDelta) -> None:
        now_ms = self.now_ms()
        if self.events.is_watched:
            self._news.on_commit(records)
        for record in records:
            self._quiet.on_commit(record, now_ms)
            self.counters.on_commit(record)
            match record:
                case PartitionRecord(leader=leader) | PartitionChangeRecord(leader=leader):
                    self._recoveries.on_partition(record)
                    if leader is not None and leader != NO_LEADER:
                        self._recoveries.on_elected(record.topic_id, record.partition)
                        self.applied.on_elected(leader, envelope.metadata_offset, now_ms)
                case RegisterBrokerRecord():
                    broker = self.state.brokers[record.broker_id]
                    self.sessions.on_registered(broker.broker_id, broker.epoch, now_ms)
                    self.applied.on_registered(broker.broker_id, broker.epoch)
                    self._pusher.on_registered(broker)
                case BrokerRegistrationChangeRecord(fenced=True):
                    self.applied.on_fenced(record.broker_id)
                case BrokerRegistrationChangeRecord(fenced=False):
                    self.sessions.on_unfenced(record.broker_id, record.broker_epoch, now_ms)
                case UnregisterBrokerRecord():
                    self._pusher.on_unregistered(record.broker_id)
                    self.told.pop(record.broker_id, None)
                case RemoveTopicRecord(topic_id=topic_id):
                    self._recoveries.on_removed(topic_id)
                case _:
                    pass
        self._pusher.publish(envelope)
        self._snapshots.on_commit()
        self._on_progress()

    def _snapshot(self) -> push.MetadataDelta:
        """Made once for all brokers at the same offset: 1000 partitions take 8 ms."""
        known = self._last_snapshot
        if known is None or known.metadata_offset != self.state.last_offset:
            known = self._last_snapshot = push.snapshot(self.state)
        return known

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            work.close()  # no decision is made before `run`
        else:
            self._tasks.create_task(work)

    def _on_applied(self, broker: Broker, offset: MetadataOffset) -> None:
        if self.applied.on_applied(broker.broker_id, broker.epoch, offset):
            self._on_progress()

    def _on_progress(self) -> None:
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()

    def _refuse_to_run(self, mismatch: StoreMismatch) -> NoReturn:
        self._runtime.log.error("this controller must not run", why=mismatch.why)
        self._runtime.exit(mismatch.why)
