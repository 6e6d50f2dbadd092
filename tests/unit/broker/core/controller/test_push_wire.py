"""An envelope on the wire: each broker is told of its own replicas, and everybody of everything."""

from strandline_broker.core.controller.partitions.reassignment import Wish, decide_reassignments
from strandline_broker.core.controller.push import snapshot
from strandline_broker.core.controller.topics.topics import decide_delete_topic
from strandline_broker.hosts.controller.settings import Identity
from strandline_broker.rpc.cluster.push_codec import PushTranslator
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import push_pb2
from support.controller_cluster import B1, B2, B3, CLUSTER, STORE, Cluster

TRANSLATE = PushTranslator(Identity(BrokerId(100), CLUSTER, STORE))


def told(cluster: Cluster, broker_id: BrokerId) -> push_pb2.LeaderAndIsrRequest:
    """The last envelope, as this broker gets it."""
    return TRANSLATE(cluster.envelopes[-1], cluster.state.brokers[broker_id])


def hosted(request: push_pb2.LeaderAndIsrRequest) -> list[int]:
    return [p.partition_index for topic in request.leader_and_isr for p in topic.partitions]


def described(request: push_pb2.LeaderAndIsrRequest) -> list[int]:
    return [p.index for topic in request.update_metadata.topics for p in topic.partitions]


def test_the_header_names_sender_receiver_and_place_in_the_log() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1,))
    request = told(cluster, B2)
    assert (request.controller_id, request.cluster_id, request.store_id) == (100, CLUSTER, STORE)
    assert request.controller_epoch == 1
    assert request.broker_epoch == cluster.state.brokers[B2].epoch
    assert request.metadata_offset == cluster.state.last_offset
    assert request.prev_metadata_offset == cluster.envelopes[-2].metadata_offset
    assert not request.full


def test_a_broker_is_told_of_its_own_replicas_and_what_clients_ask_of_all() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2), (B2, B3), segment_bytes="1000")
    assert hosted(told(cluster, B1)) == [0]
    assert hosted(told(cluster, B2)) == [0, 1]
    assert described(told(cluster, B1)) == [0, 1]
    (topic,) = told(cluster, B3).leader_and_isr
    assert [(c.name, c.value) for c in topic.configs] == [("segment.bytes", "1000")]
    (partition,) = topic.partitions
    assert (partition.leader, partition.leader_epoch, partition.is_new) == (B2, 0, True)
    assert list(partition.replicas) == [B2, B3]
    assert partition.eff_min_insync_replicas == 2
    assert [(m.broker_id, m.broker_epoch) for m in partition.isr_with_epochs] == [
        (b, cluster.state.brokers[b].epoch) for b in (B2, B3)
    ]


def test_a_replica_that_only_went_offline_is_news_for_clients_alone() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2))
    cluster.fence(B2)
    cluster.unfence(B2)
    request = told(cluster, B1)
    assert hosted(request) == []
    assert described(request) == [0]
    (broker,) = request.update_metadata.live_brokers
    assert (broker.broker_id, broker.fenced) == (B2, False)
    assert [(e.listener, e.port) for e in broker.endpoints] == [("INTERNAL", 9002)]


def test_what_was_altered_for_brokers_is_told_to_the_one_it_is_for_and_what_is_for_all_to_all() -> (
    None
):
    cluster = Cluster([B1, B2])
    cluster.alter("", {"log.roll.ms": "5"})
    cluster.alter("2", {"log.roll.ms": "6"})
    one, other = told(cluster, B1).dynamic_configs, told(cluster, B2).dynamic_configs
    assert [(e.name, e.value) for e in one.cluster] == [("log.roll.ms", "5")]
    assert [(e.name, e.value) for e in one.controller] == [("min.insync.replicas", "2")]
    assert not one.broker
    assert [(e.name, e.value) for e in other.broker] == [("log.roll.ms", "6")]
    assert other.cluster == one.cluster
    cluster.topic("t", (B1,))
    assert not told(cluster, B2).HasField("dynamic_configs"), "it has not changed"


def test_a_deletion_stops_the_replicas_of_those_who_have_some() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2), (B2, B1))
    cluster.commit(decide_delete_topic(cluster.state, name="t", topic_id=b""))
    (stopped,) = told(cluster, B1).stop_replica
    assert stopped.topic_id == topic
    assert [
        (p.partition_index, p.leader_epoch, p.delete_partition) for p in stopped.partitions
    ] == [
        (0, -2, True),
        (1, -2, True),
    ]
    assert not told(cluster, B3).stop_replica
    assert list(told(cluster, B3).update_metadata.deleted_topic_ids) == [topic]


def test_a_removed_replica_is_deleted_under_the_epoch_of_its_removal() -> None:
    """P-18, I-85."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2), (B2, B1))
    wishes = [Wish("t", index, (B2,)) for index in (0, 1)]
    cluster.commit(decide_reassignments(cluster.state, wishes))
    stopped = [
        (each.topic_id, p.partition_index, p.leader_epoch, p.delete_partition)
        for each in told(cluster, B1).stop_replica
        for p in each.partitions
    ]
    assert stopped == [(topic, 0, 1, True), (topic, 1, 1, True)]
    assert not told(cluster, B1).leader_and_isr
    assert not told(cluster, B2).stop_replica
    cluster.commit(decide_reassignments(cluster.state, [Wish("t", 0, (B2, B3))]))
    (hosted,) = told(cluster, B3).leader_and_isr
    assert list(hosted.partitions[0].adding_replicas) == [B3]
    assert not hosted.partitions[0].is_new
    assert not told(cluster, B3).stop_replica


def test_clients_are_told_whom_a_partition_without_a_leader_waits_for() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2))
    cluster.fence(B1)
    for broker_id in (B1, B2):
        cluster.register(broker_id)
    (partition,) = told(cluster, B1).update_metadata.topics[0].partitions
    assert (partition.leader, list(partition.isr), list(partition.elr)) == (-1, [], [])
    assert list(partition.last_known_elr) == [B1, B2]


def test_a_broker_gets_the_controllers_values_that_it_describes() -> None:
    cluster = Cluster([B1])
    values = {"num.partitions": "4", "min.insync.replicas": "9"}
    translate = PushTranslator(Identity(BrokerId(100), CLUSTER, STORE), values)
    snapshot_of = cluster.state
    request = translate(snapshot(snapshot_of), snapshot_of.brokers[B1])
    pushed = {each.name: each.value for each in request.dynamic_configs.controller}
    assert pushed == {**values, **snapshot_of.defaults}
    assert pushed["num.partitions"] == "4"
    assert pushed["min.insync.replicas"] != "9", "the log's own value counts"
