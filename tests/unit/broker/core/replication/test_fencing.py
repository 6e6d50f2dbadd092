"""Fencing by leader epoch (I-33)."""

import pytest

from strandline_broker.core.replication.fencing import check_leader_epoch
from strandline_proto.errors import FencedLeaderEpoch, UnknownLeaderEpoch


def test_a_request_of_the_same_epoch_passes() -> None:
    check_leader_epoch(0, 0, where="orders-0")
    check_leader_epoch(7, 7, where="orders-0")


def test_a_request_that_names_no_epoch_passes() -> None:
    check_leader_epoch(-1, 7, where="orders-0")


def test_a_request_of_an_earlier_epoch_is_fenced() -> None:
    with pytest.raises(FencedLeaderEpoch, match="orders-0: leader epoch 0 has ended, 7 is current"):
        check_leader_epoch(0, 7, where="orders-0")


def test_a_request_of_a_later_epoch_may_be_retried() -> None:
    with pytest.raises(UnknownLeaderEpoch, match="orders-0: leader epoch 8 is newer than 7") as e:
        check_leader_epoch(8, 7, where="orders-0")
    assert e.value.retriable
