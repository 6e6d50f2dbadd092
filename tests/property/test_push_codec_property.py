"""What a push carries arrives as it was sent, and so does its answer."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.controller.log.records import RECOVERED, RECOVERING
from strandline_broker.core.controller.log.state import Broker, PartitionRegistration
from strandline_broker.core.controller.push import (
    ClusterConfigs,
    MetadataDelta,
    PushedPartition,
    PushedTopic,
    RemovedReplicas,
    RemovedTopic,
)
from strandline_broker.core.push_answer import FailedPartition, LogEnd, PushAnswer, ReplicaLogEnd
from strandline_broker.core.push_envelope import (
    TOPIC_DELETED,
    DynamicConfigs,
    Envelope,
    HostedTopic,
    LiveBroker,
    PartitionMetadata,
    StopReplica,
    TopicMetadata,
)
from strandline_broker.core.replication.partition_state import IsrMember, PartitionState
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.controller.settings import Identity
from strandline_broker.rpc.cluster.push_codec import (
    PushTranslator,
    answer_from_wire,
    answer_to_wire,
    envelope_from_wire,
)
from strandline_proto.errors import ERRORS, NONE, WireError
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import push_pb2

SENDER = Identity(BrokerId(100), "a-cluster", "a-store")
ME = 1

int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(0, 2**63 - 1)
names = st.text(max_size=12)
ids = st.binary(min_size=16, max_size=16)
broker_ids = st.integers(ME, 4)
several = st.lists(broker_ids, max_size=4, unique=True).map(tuple)
configs = st.dictionaries(names, names, max_size=3)
conditions = st.none() | st.sampled_from(ReplicaCondition)

brokers = st.builds(
    Broker,
    broker_id=broker_ids,
    epoch=int64,
    listeners=st.lists(st.builds(Endpoint, names, names, int32), max_size=2).map(tuple),
    rack=names,
    fenced=st.booleans(),
    in_controlled_shutdown=st.booleans(),
    **dict.fromkeys(("incarnation_id", "directory_id", "flush_policy"), st.just("")),
    **dict.fromkeys(("version", "inter_broker_listener"), st.just("")),
    **dict.fromkeys(("features", "log_dirs"), st.just(())),
    pid=st.just(0),
    fencing_offset=st.just(0),
)
partitions = st.builds(
    PartitionRegistration,
    topic_id=ids,
    index=int32,
    leader=st.integers(-1, 4),
    leader_epoch=int32,
    partition_epoch=int32,
    leader_recovery_state=st.sampled_from([RECOVERED, RECOVERING]),
    unclean_epoch=st.integers(-1, 9),
    changed_at=st.just(0),
    elected_at=st.just(0),
    directories=st.just(()),
    original=st.just(()),
    **dict.fromkeys(
        ("replicas", "isr", "adding", "removing", "elr", "last_known_elr"),
        several,
    ),
)
pushed_partitions = st.builds(
    PushedPartition,
    partition=partitions,
    isr_with_epochs=st.lists(st.tuples(broker_ids, int64), max_size=3).map(tuple),
    effective_min_isr=int32,
    offline_replicas=st.lists(st.tuples(broker_ids, conditions), max_size=3).map(tuple),
    is_new=st.booleans(),
    moved=st.booleans(),
)
removed = st.lists(
    st.builds(RemovedTopic, ids, st.lists(st.tuples(int32, several), max_size=3).map(tuple)),
    max_size=2,
)
deltas = st.builds(
    MetadataDelta,
    controller_epoch=int32,
    metadata_offset=int64,
    prev_metadata_offset=int64,
    full=st.booleans(),
    topics=st.lists(
        st.builds(
            PushedTopic,
            name=names,
            topic_id=ids,
            configs=configs.map(lambda found: tuple(found.items())),
            partitions=st.lists(pushed_partitions, max_size=3).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    removed_topics=removed.map(tuple),
    removed_replicas=st.lists(
        st.builds(RemovedReplicas, ids, int32, int32, several), max_size=2
    ).map(tuple),
    brokers=st.lists(brokers, max_size=2).map(tuple),
    removed_brokers=several,
    dynamic=st.none()
    | st.builds(
        ClusterConfigs,
        st.dictionaries(broker_ids, configs),
        configs,
        configs,
        st.dictionaries(st.text(max_size=5), configs, max_size=3),
    ),
    epoch_starts=st.lists(st.tuples(int64, int32), max_size=2).map(tuple),
)


def state_of(topic: PushedTopic, pushed: PushedPartition) -> PartitionState:
    p = pushed.partition
    return PartitionState(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=p.index,
        leader=p.leader,
        leader_epoch=p.leader_epoch,
        isr=tuple(IsrMember(b, epoch) for b, epoch in pushed.isr_with_epochs),
        partition_epoch=p.partition_epoch,
        replicas=p.replicas,
        elr=p.elr,
        eff_min_insync=pushed.effective_min_isr,
        is_new=pushed.is_new,
        recovering=p.leader_recovery_state == RECOVERING,
        unclean_epoch=p.unclean_epoch,
        adding=p.adding,
    )


def described(topic: PushedTopic) -> TopicMetadata:
    return TopicMetadata(
        topic.name,
        topic.topic_id,
        tuple(
            PartitionMetadata(
                partition=pushed.partition.index,
                leader=pushed.partition.leader,
                leader_epoch=pushed.partition.leader_epoch,
                partition_epoch=pushed.partition.partition_epoch,
                replicas=pushed.partition.replicas,
                isr=pushed.partition.isr,
                offline_replicas=tuple(b for b, _ in pushed.offline_replicas),
                offline_conditions=tuple(why for _, why in pushed.offline_replicas),
                elr=pushed.partition.elr,
                last_known_elr=pushed.partition.last_known_elr,
            )
            for pushed in topic.partitions
        ),
        dict(topic.configs),
    )


def reached(b: Broker) -> LiveBroker:
    return LiveBroker(
        b.broker_id,
        b.epoch,
        b.listeners,
        b.rack,
        b.fenced,
        b.in_controlled_shutdown,
    )


def stopped(delta: MetadataDelta) -> tuple[StopReplica, ...]:
    return (
        *(
            StopReplica(topic.topic_id, index, TOPIC_DELETED, delete=True)
            for topic in delta.removed_topics
            for index, replicas in topic.replicas
            if ME in replicas
        ),
        *(
            StopReplica(gone.topic_id, gone.partition, gone.leader_epoch, delete=True)
            for gone in delta.removed_replicas
            if ME in gone.brokers
        ),
    )


def meant(delta: MetadataDelta, receiver: Broker) -> Envelope:
    """What the receiver is to know of it: decisions on its own replicas, and what clients are told
    of everybody's.
    """
    mine = [
        (topic, [p for p in topic.partitions if p.moved and ME in p.partition.replicas])
        for topic in delta.topics
    ]
    hosted = [(topic, found) for topic, found in mine if found]
    dynamic = delta.dynamic
    return Envelope(
        cluster_id=SENDER.cluster_id,
        controller_id=SENDER.node_id,
        store_id=SENDER.store_id,
        controller_epoch=delta.controller_epoch,
        broker_epoch=receiver.epoch,
        metadata_offset=delta.metadata_offset,
        prev_metadata_offset=delta.prev_metadata_offset,
        full=delta.full,
        stop_replicas=stopped(delta),
        leader_and_isr=tuple(state_of(topic, p) for topic, found in hosted for p in found),
        hosted_topics=tuple(
            HostedTopic(topic.name, topic.topic_id, dict(topic.configs)) for topic, _ in hosted
        ),
        topics=tuple(described(topic) for topic in delta.topics),
        live_brokers=tuple(map(reached, delta.brokers)),
        deleted_topic_ids=tuple(topic.topic_id for topic in delta.removed_topics),
        removed_brokers=delta.removed_brokers,
        dynamic_configs=None
        if dynamic is None
        else DynamicConfigs(
            dynamic.brokers.get(BrokerId(ME), {}),
            dynamic.cluster,
            dynamic.controller,
            dynamic.groups,
        ),
        epoch_starts=delta.epoch_starts,
    )


@given(deltas, brokers)
def test_a_broker_reads_what_the_controller_means_for_it(
    delta: MetadataDelta, receiver: Broker
) -> None:
    receiver = replace(receiver, broker_id=BrokerId(ME))
    sent = PushTranslator(SENDER)(delta, receiver).SerializeToString()
    assert envelope_from_wire(push_pb2.LeaderAndIsrRequest.FromString(sent)) == meant(
        delta, receiver
    )


errors = st.builds(
    lambda code, message: ERRORS[code](message),
    st.sampled_from([code for code in ERRORS if code != NONE]),
    st.text(min_size=1, max_size=20),
)
answers = st.builds(
    PushAnswer,
    metadata_offset=int64,
    applied_offset=int64,
    controller_epoch=int32,
    store_id=names,
    want_full=st.booleans(),
    error=st.none() | errors,
    failed=st.lists(st.builds(FailedPartition, ids, int32, errors), max_size=4).map(tuple),
    log_ends=st.lists(
        st.builds(ReplicaLogEnd, ids, int32, int32, st.builds(LogEnd, st.integers(-1, 9), int64)),
        max_size=3,
    ).map(tuple),
)


@given(answers)
def test_the_controller_reads_what_a_broker_answers(answer: PushAnswer) -> None:
    sent = answer_to_wire(answer).SerializeToString()
    read = answer_from_wire(push_pb2.LeaderAndIsrResponse.FromString(sent))
    assert replace(read, error=None, failed=()) == replace(answer, error=None, failed=())
    assert told(read.error) == told(answer.error)
    # By topic, in the order in which topics were first named.
    assert sorted((*key, told(why)) for *key, why in read.failed) == sorted(
        (*key, told(why)) for *key, why in answer.failed
    )


def told(error: WireError | None) -> tuple[int, str]:
    return (NONE, "") if error is None else (error.code, str(error))
