"""The controller as the source of watch frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.log.state import MIN_INSYNC_REPLICAS
from strandline_broker.core.controller.news import (
    Election,
    IsrChange,
    LossNews,
    Reassignment,
    TopicNews,
)
from strandline_broker.hosts.watch.content import (
    BrokerChange,
    ControllerPart,
    Identity,
    PartitionChange,
    RegistrationPart,
    ServerKind,
    SessionPart,
    TopicName,
)
from strandline_runtime.milliseconds import wall_ms

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import Broker, PartitionRegistration, Topic
    from strandline_broker.hosts.common.events import Events
    from strandline_broker.hosts.controller.controller import Controller
    from strandline_broker.hosts.watch.draft import Draft, Pauses
    from strandline_broker.hosts.watch.selection import Selection
    from strandline_proto.ids import BrokerId, TopicId
    from strandline_runtime.runtime import Clock

SLICE: Final = 500
"""Partitions that are looked at without a pause."""


class ControllerSource:
    def __init__(self, clock: Clock, controller: Controller) -> None:
        self.clock = clock
        self.controller = controller
        self.events: Events = controller.events

    def identity(self) -> Identity:
        """The process: each one has a controller epoch of its own."""
        known = self.controller.identity
        incarnation = f"controller-epoch-{self.controller.state.controller_epoch}"
        return Identity(known.cluster_id, ServerKind.CONTROLLER, known.node_id, incarnation)

    def view(self, selection: Selection) -> ControllerView:
        """A view that has seen nothing."""
        return ControllerView(self, selection)


class ControllerView:
    """A `View` of the controller."""

    def __init__(self, source: ControllerSource, selection: Selection) -> None:
        self._clock = source.clock
        self._events = source.events
        self._controller = source.controller
        self._selection = selection
        self._status: Any = None
        self._offset: int | None = None
        """Offset of the last decision that was looked at."""
        self._topics: dict[TopicId, tuple[str, str]] = {}
        """Name and min.insync.replicas of the topics that the watcher has seen."""
        self._partitions: dict[TopicId, dict[int, PartitionRegistration]] = {}
        self._brokers: dict[BrokerId, Broker] = {}
        self._sessions: dict[BrokerId, tuple[Any, ...]] = {}

    def forget(self) -> None:
        """Forget everything that the watcher has seen."""
        self._status = self._offset = None
        for seen in (self._topics, self._partitions, self._brokers, self._sessions):
            seen.clear()

    def look(self, draft: Draft) -> Pauses:
        """Add what has changed."""
        state = self._controller.state
        status = ControllerPart(state.controller_epoch, state.last_offset, self._events.watchers)
        if status != self._status:
            self._status = draft.content.controller = status
            draft.content.size += 1
        self._look_at_brokers(draft)
        if state.last_offset != self._offset:
            self._offset = state.last_offset
            yield from self._look_at_topics(draft)
        yield

    def has(self, what: Any) -> bool:
        """True if the watcher has selected the event."""
        selection = self._selection
        match what:
            case Election() | IsrChange() | Reassignment():
                return selection.has(what.topic, what.now.index)
            case LossNews():
                return selection.has(what.topic, what.record.partition)
            case TopicNews():
                return selection.has_topic(what.topic)
        return True

    def _look_at_brokers(self, draft: Draft) -> None:
        controller, content = self._controller, draft.content
        brokers = controller.state.brokers
        for broker_id, broker in brokers.items():
            sessions = controller.sessions
            session = (
                sessions.heard_ms(broker_id),
                sessions.expires_ms(broker_id),
                controller.applied.offsets.get(broker_id, -1),
            )
            if session == self._sessions.get(broker_id) and (
                broker is self._brokers.get(broker_id)
            ):
                continue
            change = BrokerChange(broker_id)
            if session != self._sessions.get(broker_id):
                self._sessions[broker_id] = session
                change.session = self._session(*session)
            if broker is not self._brokers.get(broker_id):
                self._brokers[broker_id] = broker
                change.registration = _registration(broker)
            content.brokers.append(change)
            content.size += 1
        if len(brokers) != len(self._brokers):
            for broker_id in [each for each in self._brokers if each not in brokers]:
                del self._brokers[broker_id]
                self._sessions.pop(broker_id, None)
                content.removed_brokers.append(broker_id)
                content.size += 1

    def _session(self, heard_ms: int | None, ends_ms: int | None, applied: int) -> SessionPart:
        wall_less_monotonic_ms = wall_ms(self._clock) - self._controller.now_ms()
        return SessionPart(
            None if heard_ms is None else heard_ms + wall_less_monotonic_ms,
            None if ends_ms is None else ends_ms + wall_less_monotonic_ms,
            None if applied < 0 else applied,
        )

    def _look_at_topics(self, draft: Draft) -> Pauses:
        state, number = self._controller.state, 0
        minimum = state.min_insync_default
        for topic in list(state.topics.values()):
            if not self._selection.has_topic(topic.name):
                continue
            known = (topic.name, topic.configs.get(MIN_INSYNC_REPLICAS, minimum))
            if self._topics.get(topic.topic_id) != known:
                self._topics[topic.topic_id] = known
                self._partitions[topic.topic_id] = {}
            seen = self._partitions[topic.topic_id]
            for index, partition in list(topic.partitions.items()):
                if partition is not seen.get(index) and self._selection.has(topic.name, index):
                    seen[index] = partition
                    self._add(draft, topic, partition)
                number += 1
                if number % SLICE == 0:
                    yield
        for topic_id in [each for each in self._topics if each not in state.topics]:
            name, _ = self._topics.pop(topic_id)
            del self._partitions[topic_id]
            draft.content.removed_topics.append(TopicName(name, topic_id))
            draft.content.size += 1

    def _add(self, draft: Draft, topic: Topic, partition: PartitionRegistration) -> None:
        least = self._controller.state.effective_min_isr(topic, partition)
        draft.content.partitions.append(PartitionChange(topic.name, partition, least))
        draft.content.size += 1


def _registration(broker: Broker) -> RegistrationPart:
    return RegistrationPart(
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        decommissioning=broker.decommissioning,
        rack=broker.rack,
        version=broker.version,
        listeners=broker.listeners,
        offline_replicas=len(broker.offline_replicas),
    )
