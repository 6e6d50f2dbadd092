"""Blocks of producer ids: no id twice, over restarts too (I-59)."""

import pytest

from strandline_broker.core.controller.producer_ids import BLOCK_LEN, decide_producer_ids
from strandline_proto.errors import StaleBrokerEpoch
from strandline_proto.ids import BrokerEpoch, BrokerId
from support.controller_cluster import B1, B2, Cluster


def allocate(cluster: Cluster, broker_id: BrokerId) -> int:
    epoch = cluster.state.brokers[broker_id].epoch
    return cluster.commit(decide_producer_ids(cluster.state, broker_id, epoch))


def test_blocks_follow_each_other_without_overlap() -> None:
    cluster = Cluster([B1, B2])
    assert BLOCK_LEN == 1000
    assert [allocate(cluster, b) for b in (B1, B2, B1)] == [0, 1000, 2000]


def test_a_block_is_not_given_again_after_a_restart() -> None:
    cluster = Cluster([B1])
    allocate(cluster, B1)
    cluster.state = cluster.replayed()
    assert allocate(cluster, B1) == 1000


def test_an_old_incarnation_gets_none() -> None:
    cluster = Cluster([B1])
    stale = BrokerEpoch(cluster.state.brokers[B1].epoch - 1)
    with pytest.raises(StaleBrokerEpoch):
        decide_producer_ids(cluster.state, B1, stale)
