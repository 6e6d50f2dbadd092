"""What the controller keeps of where logs end: words of this life and this epoch (I-53)."""

from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.push_answer import LogEnd
from strandline_proto.ids import LeaderEpoch
from support.controller_cluster import B1, B2, Cluster


def test_only_the_registered_life_and_the_present_epoch_count() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    ends, end = LogEnds(), LogEnd(3, 40)

    def told() -> LogEnd | None:
        return ends.of(cluster.partition(topic), cluster.state.brokers[B1])

    broker = cluster.state.brokers[B1]
    ends.on_told(broker, cluster.partition(topic), leader_epoch=LeaderEpoch(9), end=end)
    ends.on_told(broker, None, leader_epoch=LeaderEpoch(0), end=end)
    assert told() is None
    ends.on_told(broker, cluster.partition(topic), leader_epoch=LeaderEpoch(0), end=end)
    assert told() == end
    cluster.fence(B1)
    assert told() is None, "the leader epoch has risen"
    epoch = cluster.partition(topic).leader_epoch
    ends.on_told(broker, cluster.partition(topic), leader_epoch=epoch, end=end)
    assert told() == end
    ends.forget(topic, 7)
    assert told() == end
    ends.forget(topic, 0)
    assert told() is None
    ends.on_told(broker, cluster.partition(topic), leader_epoch=epoch, end=end)
    ends.forget_topic(topic)
    assert told() is None


def test_the_later_epoch_is_greater_and_then_the_longer_log() -> None:
    assert LogEnd(2, 0) > LogEnd(1, 99)
    assert LogEnd(1, 9) > LogEnd(1, 8)
