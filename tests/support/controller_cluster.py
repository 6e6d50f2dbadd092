"""A controller's state with brokers in it, driven decision by decision, without log or clock."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from strandline_broker.config.keys import dynamic_parsers, read_only_keys
from strandline_broker.config.unsupported import is_not_yet, refusal_at_run_time
from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.controller import push
from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.brokers.fencing import decide_fence
from strandline_broker.core.controller.brokers.registration import (
    StoreMismatch,
    decide_registration,
)
from strandline_broker.core.controller.brokers.sessions import Sessions
from strandline_broker.core.controller.brokers.shutdown import decide_shutdown
from strandline_broker.core.controller.brokers.unfencing import decide_unfence
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import AnyRecord, decode, encode
from strandline_broker.core.controller.log.startup import decide_start
from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
from strandline_broker.core.controller.partitions.departures import decide_departures
from strandline_broker.core.controller.topics.configs import (
    BROKER,
    DELETE,
    SET,
    TOPIC,
    Alteration,
    ServerKeys,
    decide_alter_configs,
)
from strandline_broker.core.controller.topics.topics import (
    NewTopic,
    TopicDefaults,
    decide_create_topic,
)
from strandline_broker.core.registration import Registration
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    MetadataOffset,
    TopicId,
)

Answer = TypeVar("Answer")

CLUSTER, STORE = "cluster", "store"
SESSION_MS = 9000
B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
SERVER_KEYS = ServerKeys(dynamic_parsers(), read_only_keys(), refusal_at_run_time, is_not_yet)
DEFAULTS = TopicDefaults(partitions=1, replication_factor=3)


def registration(broker_id: BrokerId, incarnation: str, **fields: object) -> Registration:
    """A first registration of `broker_id`; `fields` replaces what differs."""
    plain = Registration(
        broker_id=broker_id,
        cluster_id="",
        incarnation_id=incarnation,
        directory_id=f"dir-{broker_id}",
        flush_policy="replicated",
        pid=100 + broker_id,
        version="test",
        store_id="",
        controller_epoch=ControllerEpoch(-1),
        metadata_offset=MetadataOffset(-1),
        listeners=(Endpoint("INTERNAL", "127.0.0.1", 9000 + broker_id),),
        inter_broker_listener="INTERNAL",
        rack="",
        features=(),
        log_dirs=(),
        previous_broker_epoch=BrokerEpoch(-1),
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


class Cluster:
    """What the pipeline does, in memory: decide, remember the records, replay, push."""

    def __init__(self, brokers: Sequence[BrokerId] = (), *, min_insync: int = 2) -> None:
        self.state = ControllerState()
        self.sessions = Sessions(SESSION_MS)
        self.now_ms = 0
        self.log: list[bytes] = []
        self.envelopes: list[push.MetadataDelta] = []
        self._incarnations = 0
        self._topics = 0
        self.commit(decide_start(self.state, min_insync_replicas=min_insync))
        for broker_id in brokers:
            self.up(broker_id)

    def commit(self, decision: Decision[Answer]) -> Answer:
        records: Sequence[AnyRecord] = decision.records
        if records:
            changes = push.begin(self.state, records)
            for record in records:
                self.log.append(encode(record))
                self.state.replay(record, self.state.next_offset)
            self.envelopes.append(push.delta(self.state, changes))
        return decision.answer

    def register(self, broker_id: BrokerId, **fields: object) -> BrokerEpoch:
        """A new incarnation registers; it stays fenced."""
        self._incarnations += 1
        memory = self.memory() if broker_id in self.state.brokers else {}
        name = f"incarnation-{self._incarnations}"
        request = registration(broker_id, name, **memory | fields)
        answer = self.commit(self.decide_registration(request))
        assert not isinstance(answer, StoreMismatch)
        self.sessions.on_registered(broker_id, answer, self.now_ms)
        return answer

    def memory(self) -> dict[str, object]:
        """What a broker remembers that has applied all."""
        offset = self.state.last_offset
        epoch = self.state.epoch_at(offset)
        return {"store_id": STORE, "controller_epoch": epoch, "metadata_offset": offset}

    def decide_registration(self, request: Registration) -> Decision[BrokerEpoch | StoreMismatch]:
        return decide_registration(
            self.state,
            self.sessions,
            request,
            cluster_id=CLUSTER,
            store_id=STORE,
            now_ms=self.now_ms,
        )

    def unfence(self, broker_id: BrokerId) -> bool:
        epoch = self.state.brokers[broker_id].epoch
        return self.commit(
            decide_unfence(self.state, broker_id, epoch, applied=self.state.last_offset)
        )

    def up(self, broker_id: BrokerId, **fields: object) -> BrokerEpoch:
        epoch = self.register(broker_id, **fields)
        assert self.unfence(broker_id)
        return epoch

    def fence(self, broker_id: BrokerId) -> bool:
        return self.commit(decide_fence(self.state, broker_id, self.state.brokers[broker_id].epoch))

    def all_apply(self) -> None:
        """Every broker answers for all that was decided, and the controller goes by that."""
        applied = Applied()
        for broker in self.state.brokers.values():
            who = (broker.broker_id, broker.epoch)
            applied.on_registered(*who)
            applied.on_answered(*who, self.state.last_offset, failed=frozenset(), full=True)
        self.commit(decide_departures(self.state, applied, limit=1000))

    def shut_down(self, broker_id: BrokerId) -> bool:
        return self.commit(
            decide_shutdown(self.state, broker_id, self.state.brokers[broker_id].epoch)
        )

    def topic(self, name: str, *replicas: tuple[BrokerId, ...], **configs: str) -> TopicId:
        """A topic with these replicas of its partitions."""
        self._topics += 1
        wish = NewTopic(
            name=name,
            partitions=-1,
            replication_factor=-1,
            assignments=tuple(enumerate(replicas)),
            configs=tuple((key.replace("_", "."), value) for key, value in configs.items()),
        )
        created = self.commit(
            decide_create_topic(
                self.state,
                wish,
                defaults=DEFAULTS,
                topic_id=TopicId(self._topics.to_bytes(16, "big")),
                validate_only=False,
            )
        )
        return created.topic_id

    def alter(
        self,
        broker: str,
        entries: dict[str, str | None],
        *,
        topic: str | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set entries, or delete those without a value, of a topic, a broker or all ("")."""
        self.commit(
            decide_alter_configs(
                self.state,
                kind=BROKER if topic is None else TOPIC,
                name=broker if topic is None else topic,
                alterations=[
                    Alteration(key, DELETE if value is None else SET, value or "")
                    for key, value in entries.items()
                ],
                keys=SERVER_KEYS,
                validate_only=validate_only,
            )
        )

    def partition(self, topic_id: TopicId, index: int = 0) -> PartitionRegistration:
        partition = self.state.partition(topic_id, index)
        assert partition is not None
        return partition

    def replayed_records(self, start: int) -> list[AnyRecord]:
        """The records from that offset on."""
        return [decode(value) for value in self.log[start:]]

    def replayed(self) -> ControllerState:
        """The state that a restarted controller would have."""
        state = ControllerState()
        for offset, value in enumerate(self.log):
            state.replay(decode(value), MetadataOffset(offset))
        return state
