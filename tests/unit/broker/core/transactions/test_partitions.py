"""Partitions of a transaction: adding, verifying, and who may."""

from __future__ import annotations

from strandline_broker.core.transactions.commands import PARKED, PartitionsAdded, Producer
from strandline_proto.ids import ProducerEpoch, ProducerId
from support.transactions_rig import T0, T1, TransactionsRig, code


def test_the_first_partition_begins_the_transaction_and_a_known_one_writes_nothing() -> None:
    rig = TransactionsRig()
    producer = rig.init()
    rig.add(producer, T1)
    started_ms, length = rig.of().started_ms, len(rig.log)
    rig.wall_ms += 5
    rig.add(producer, T1)
    assert len(rig.log) == length
    rig.add(producer, T0)
    assert rig.of().partitions == (T0, T1)
    assert rig.of().started_ms == started_ms


def test_busy_stands_before_the_epoch() -> None:
    """P-117: the producer has the next epoch, the transaction is not complete yet."""
    rig = TransactionsRig()
    producer = rig.begun()
    following = rig.end(producer)
    for each in (producer, following):
        assert code(rig.add(each)) == 51
        assert code(rig.verify(each)) == 51
    rig.marked()
    assert code(rig.add(producer)) == 90
    assert rig.add(following).errors == (None,)
    assert rig.of().partitions == (T0,)


def test_a_client_that_waits_is_answered_once_the_transaction_before_is_complete() -> None:
    rig = TransactionsRig()
    producer = rig.begun(version=0)
    rig.end(producer, version=0)
    later = Producer(producer.producer_id, ProducerEpoch(producer.producer_epoch + 1))
    assert rig.add(producer, T1, version=0, waits=True) is PARKED
    assert rig.add(later, version=0, waits=True) is PARKED, "busy stands before the epoch"
    assert code(rig.add(Producer(ProducerId(7), producer.producer_epoch), waits=True)) == 49
    assert code(rig.add(producer, name="unknown", waits=True)) == 49
    assert rig.state() == "PrepareCommit"
    rig.marked()
    added, refused = rig.answered
    assert added == PartitionsAdded((None,))
    assert code(refused) == 90
    assert rig.state() == "Ongoing"
    assert rig.of().partitions == (T1,)
    assert rig.add(producer, T0, version=0, waits=True).errors == (None,)


def test_a_wrong_producer_is_told() -> None:
    rig = TransactionsRig()
    producer = rig.begun()
    later = Producer(producer.producer_id, ProducerEpoch(producer.producer_epoch + 1))
    other = Producer(ProducerId(7), producer.producer_epoch)
    assert code(rig.add(producer, name="unknown")) == 49
    assert code(rig.add(other)) == 49
    assert code(rig.add(later)) == 90
    assert code(rig.verify(later)) == 90


def test_verification_answers_for_each_partition_and_adds_none() -> None:
    rig = TransactionsRig()
    producer = rig.begun()
    first, second = rig.verify(producer, T0, T1).errors
    assert first is None
    assert code(second) == 120
    assert "t:1 was not added" in str(second)
    assert rig.of().partitions == (T0,)
    rig.end(producer, version=0)
    rig.marked()
    assert [code(e) for e in rig.verify(producer).errors] == [120]


def test_a_coordinator_that_may_be_deposed_proves_its_yes_with_a_record() -> None:
    """The answer waits for that record's commit; it changes nothing."""
    rig = TransactionsRig()
    producer = rig.begun()
    before, length = rig.of(), len(rig.log)
    rig.is_sure = False
    assert rig.verify(producer).errors == (None,)
    assert (len(rig.log), rig.of()) == (length + 1, before)
    assert code(rig.add(producer, name="unknown")) == 49
    assert "unknown" not in rig.transactions.table
    assert len(rig.log) == length + 2
    rig.end(producer)
    prepared_at = rig.transactions.outstanding["x"].prepared_at
    assert code(rig.end(producer)) == 51
    assert rig.transactions.outstanding["x"].prepared_at == prepared_at
    rig.marked()
    assert rig.state() == "CompleteCommit"
