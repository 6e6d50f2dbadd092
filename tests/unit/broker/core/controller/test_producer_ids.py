"""Blocks of producer ids: no id twice, over restarts too, and none that a producer may choose
(I-59).
"""

import pytest

from strandline_broker.core.controller.producer_ids import BLOCK_LEN, decide_producer_ids
from strandline_proto.errors import StaleBrokerEpoch, UnknownServerError
from strandline_proto.ids import CHOSEN_PRODUCER_IDS, BrokerEpoch, BrokerId, ProducerId
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


def test_no_block_reaches_into_the_ids_that_producers_choose() -> None:
    cluster = Cluster([B1])
    first_chosen = 1 << 62
    assert range(first_chosen, 1 << 63) == CHOSEN_PRODUCER_IDS
    cluster.state.next_producer_id = ProducerId(first_chosen - BLOCK_LEN)
    assert allocate(cluster, B1) == first_chosen - BLOCK_LEN
    for left in (0, 1, BLOCK_LEN - 1):
        cluster.state.next_producer_id = ProducerId(first_chosen - left)
        with pytest.raises(UnknownServerError, match="no producer ids are left"):
            allocate(cluster, B1)
