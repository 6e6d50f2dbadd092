"""A random balanced recovery, and what must be true of whom it chose (I-53)."""

from dataclasses import replace

from hypothesis import strategies as st

from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.controller.partitions.recovery import decide_recoveries
from strandline_broker.core.push_answer import LogEnd
from strandline_proto.ids import NO_LEADER, BrokerEpoch, BrokerId, TopicId
from support.controller_cluster import Cluster

_ends = st.tuples(st.integers(-1, 2), st.integers(0, 3))


def recover(cluster: Cluster, data: st.DataObject) -> None:
    """Brokers say where their logs end, some of them not yet, or of an earlier life."""
    state, ends = cluster.state, LogEnds()
    told: dict[tuple[TopicId, int], dict[BrokerId, LogEnd]] = {}
    for p in state.partitions():
        for b in p.replicas if p.leader == NO_LEADER else ():
            broker, end = state.brokers.get(b), LogEnd(*data.draw(_ends))
            stale = data.draw(st.sampled_from([0, 0, 0, 1]))
            if broker is None:
                continue
            if not stale:
                told.setdefault((p.topic_id, p.index), {})[b] = end
            was = replace(broker, epoch=BrokerEpoch(broker.epoch - stale))
            ends.on_told(was, p, leader_epoch=p.leader_epoch, end=end)
    before = {(p.topic_id, p.index): p for p in state.partitions()}
    for change in cluster.commit(decide_recoveries(state, ends)):
        key = (change.topic_id, change.partition)
        assert change.leader is not None
        assert state.brokers[change.leader].eligible, "KAFKA-19522"
        for b in before[key].last_known_elr:
            assert state.brokers[b].eligible, "all of them are back"
            assert told[key][change.leader] >= told[key][b], "the greatest leads"
