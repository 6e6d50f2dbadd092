"""Short ways to write down what a controller pushes, for tests of the receiving side."""

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.core.push_envelope import (
    DynamicConfigs,
    Envelope,
    LiveBroker,
    PartitionMetadata,
    TopicMetadata,
)
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
)

CLUSTER = "cluster"
STORE = "store"
MY_EPOCH = BrokerEpoch(7)


def envelope(
    offset: int,
    prev: int | None = None,
    *,
    full: bool = False,
    controller_epoch: int = 1,
    broker_epoch: int = MY_EPOCH,
    store_id: str = STORE,
    cluster_id: str = CLUSTER,
    topics: tuple[TopicMetadata, ...] = (),
    live_brokers: tuple[LiveBroker, ...] = (),
    deleted_topic_ids: tuple[TopicId, ...] = (),
    removed_brokers: tuple[int, ...] = (),
    dynamic_configs: DynamicConfigs | None = None,
) -> Envelope:
    """The envelope that ends at `offset` and follows `prev` (by default the offset before)."""
    return Envelope(
        cluster_id=cluster_id,
        controller_id=BrokerId(100),
        store_id=store_id,
        controller_epoch=ControllerEpoch(controller_epoch),
        broker_epoch=BrokerEpoch(broker_epoch),
        metadata_offset=MetadataOffset(offset),
        prev_metadata_offset=MetadataOffset(offset - 1 if prev is None else prev),
        full=full,
        topics=topics,
        live_brokers=live_brokers,
        deleted_topic_ids=deleted_topic_ids,
        removed_brokers=tuple(BrokerId(b) for b in removed_brokers),
        dynamic_configs=dynamic_configs,
    )


def live_broker(
    broker_id: int, broker_epoch: int = 7, *, fenced: bool = False, shutting_down: bool = False
) -> LiveBroker:
    return LiveBroker(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(broker_epoch),
        endpoints=(
            Endpoint("PLAINTEXT", "client.example", 9000 + broker_id),
            Endpoint("INTERNAL", "127.0.0.1", 9100 + broker_id),
        ),
        fenced=fenced,
        in_controlled_shutdown=shutting_down,
    )


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def topic(
    name: str,
    number: int,
    *partitions: PartitionMetadata,
    configs: dict[str, str] | None = None,
) -> TopicMetadata:
    return TopicMetadata(name, topic_id(number), partitions, configs or {})


def partition(
    index: int, *, leader: int = 1, leader_epoch: int = 0, partition_epoch: int = 0
) -> PartitionMetadata:
    return PartitionMetadata(
        partition=index,
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        replicas=(BrokerId(1), BrokerId(2)),
        isr=(BrokerId(1), BrokerId(2)),
    )


def applied(cache: MetadataCache, pushed: Envelope) -> None:
    """As a broker that has nothing to do in between."""
    cache.publish(cache.prepare(pushed), store_id=pushed.store_id)
