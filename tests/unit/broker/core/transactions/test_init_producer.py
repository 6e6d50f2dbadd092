"""InitProducerId: who gets which epoch, and who is fenced."""

from __future__ import annotations

import pytest

from strandline_broker.core.transactions.commands import (
    NO_PRODUCER_ID_LEFT,
    PARKED,
    Ended,
    Producer,
)
from strandline_broker.core.transactions.transaction import DATA_EPOCH_MAX
from strandline_proto.ids import ProducerEpoch, ProducerId
from support.transactions_rig import TransactionsRig, code


def test_a_new_id_begins_with_a_new_producer_id_and_each_taker_gets_the_next_epoch() -> None:
    rig = TransactionsRig()
    assert rig.init() == (1000, 0)
    assert rig.init() == (1000, 1)
    assert rig.init("other") == (1001, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_50_and_the_error_names_the_bounds(timeout_ms: int) -> None:
    refused = TransactionsRig().init(timeout_ms=timeout_ms)
    assert code(refused) == 50
    assert f"is {timeout_ms}; it must be from 1 to 900000" in str(refused)


def test_the_present_producer_gets_the_next_epoch_and_its_repeated_request_the_same() -> None:
    rig = TransactionsRig()
    first = rig.init()
    second = rig.init(producer=first)
    assert second == (first.producer_id, 1)
    rig.fail_over()
    assert rig.init(producer=first) == second, "a lost answer, also after a failover"
    third = rig.init(producer=second)
    assert third.producer_epoch == 2
    assert code(rig.init(producer=first)) == 90
    stranger = Producer(ProducerId(7), ProducerEpoch(2))
    assert code(rig.init(producer=stranger)) == 90


def test_a_taker_makes_the_earlier_producers_repeated_request_fail() -> None:
    rig = TransactionsRig()
    first = rig.init()
    rig.init(producer=first)
    rig.init()
    assert code(rig.init(producer=first)) == 90


def test_a_taker_takes_the_present_producers_repeated_request_too() -> None:
    rig = TransactionsRig()
    first = rig.init()
    taker = rig.init()
    assert taker != first
    assert code(rig.init(producer=first)) == 90, "it does not get the taker's epoch"


def test_a_late_repeated_request_does_not_abort_the_transaction_that_began_since() -> None:
    rig = TransactionsRig()
    first = rig.init()
    second = rig.init(producer=first)
    rig.add(second)
    assert code(rig.init(producer=first)) == 90
    assert rig.state() == "Ongoing"


def test_init_fences_an_open_transaction_and_is_answered_once() -> None:
    """Golden history 33 (COORDINATION 5.8), I-168."""
    rig = TransactionsRig()
    old = rig.begun()
    assert rig.init() is PARKED
    assert (rig.state(), rig.of().producer_epoch) == ("PrepareAbort", 1)
    assert code(rig.end(old)) == 90
    assert code(rig.end(old, commit=False)) == 90
    rig.marked()
    assert Ended("x") in rig.effects
    assert rig.answered == [(old.producer_id, 2)]
    assert (rig.state(), rig.of().producer_epoch) == ("Empty", 2)
    assert rig.markers == [("x", old.producer_id, 1, False)]
    assert code(rig.end(old)) == 90
    assert code(rig.end(old, commit=False)) == 90
    assert code(rig.add(old)) == 90


def test_init_of_the_present_producer_over_its_open_transaction_bumps_once() -> None:
    """P-118: with a failover in between, too."""
    for fails in (False, True):
        rig = TransactionsRig()
        old = rig.begun()
        assert rig.init(producer=old) is PARKED
        if fails:
            rig.fail_over()
        rig.marked()
        expected = (old.producer_id, old.producer_epoch + 1)
        assert rig.answered == ([] if fails else [expected])
        assert rig.init(producer=old) == expected


def test_a_producer_that_is_not_the_present_one_does_not_abort_the_open_transaction() -> None:
    rig = TransactionsRig()
    first = rig.init()
    second = rig.init()
    rig.add(second)
    assert code(rig.init(producer=first)) == 90
    assert rig.state() == "Ongoing"


def test_crossed_takers_are_answered_in_their_order_and_the_last_is_the_present_one() -> None:
    rig = TransactionsRig()
    old = rig.begun()
    rig.end(old)
    assert [rig.init(), rig.init()] == [PARKED, PARKED]
    rig.marked()
    assert rig.answered == [(old.producer_id, 2), (old.producer_id, 3)]
    assert rig.init(producer=old) != rig.answered[-1]


def test_at_the_last_epoch_a_taker_gets_another_producer_id() -> None:
    rig = TransactionsRig()
    last = rig.at(DATA_EPOCH_MAX)
    renewed = rig.init(producer=last)
    assert renewed.producer_epoch == 0
    assert renewed.producer_id != last.producer_id
    rig.fail_over()
    assert rig.init(producer=last) == renewed
    assert code(rig.end(last, commit=False)) == 90
    assert rig.add(renewed).errors == (None,)
    assert code(rig.init(producer=last)) == 90


def test_init_over_an_open_transaction_at_the_last_epoch() -> None:
    rig = TransactionsRig()
    last = rig.at(DATA_EPOCH_MAX)
    rig.add(last)
    assert rig.init() is PARKED
    rig.marked()
    assert rig.answered == [(rig.of().producer_id, 1)]
    assert rig.of().producer_id != last.producer_id


def test_without_producer_ids_at_hand_nothing_is_written() -> None:
    rig = TransactionsRig(has_producer_ids=False)
    assert rig.init() is NO_PRODUCER_ID_LEFT
    assert rig.log == []
