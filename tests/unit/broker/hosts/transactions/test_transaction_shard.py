"""The coordinator of transactions on a real log: what leaves it, when, and what stays of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.transactions.commands import (
    NO_PRODUCER_ID_LEFT,
    DescribeTransaction,
    Listed,
    ListTransactions,
    PartitionsAdded,
    Producer,
)
from strandline_broker.core.transactions.transaction import DATA_EPOCH_MAX, TransactionState
from strandline_broker.hosts.transactions import parked_calls
from strandline_proto.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidRequest,
    NotCoordinator,
)
from strandline_proto.ids import ProducerEpoch, TopicId
from support.group_broker import ORDERS, ORDERS_ID, PARTITIONS
from support.transaction_broker import error_of, transaction_broker

if TYPE_CHECKING:
    from pathlib import Path

RECREATED_ID = TopicId(b"u" * 16)


async def test_answers_and_markers_wait_for_the_commit_of_what_they_tell(tmp_path: Path) -> None:
    """I-104, I-164: mutant 54 (markers before Prepare's high watermark)."""
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        first = b.init()
        assert not first.is_answered
        producer = b.replicated(first)
        added = b.add(producer, 0, 3)
        verified = b.verify(producer)
        assert not added.is_answered
        assert not verified.is_answered, "a yes tells of a record that is not committed"
        assert b.replicated(added) == PartitionsAdded((None, None))
        assert verified.reply == PartitionsAdded((None,))
        ended = b.end(producer)
        assert b.sender.sent == []
        assert not ended.is_answered
        assert b.replicated(ended) == (producer.producer_id, producer.producer_epoch + 1)
        (sent,) = b.sender.sent
        assert sent.places == ((ORDERS_ID, 0), (ORDERS_ID, 3))
        marker = sent.marker
        assert (marker.producer_id, marker.producer_epoch) == ended.reply
        assert (marker.is_commit, marker.coordinator_epoch) == (True, 1)
        assert marker.transaction_version == 2
        assert b.state() == "PrepareCommit"
        sent.done(sent.places[0])
        assert b.state() == "PrepareCommit"
        sent.done(sent.places[1])
        assert b.state() == "CompleteCommit"


async def test_init_over_an_open_transaction_is_answered_once_when_it_has_ended(
    tmp_path: Path,
) -> None:
    """Golden history 33."""
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        old = b.begun(0)
        taking = b.init()
        b.replicate()
        assert not taking.is_answered
        assert len(b.txn.parked) == 1
        assert error_of(b.end(old).reply).code == 90
        (sent,) = b.sender.sent
        assert not sent.marker.is_commit
        sent.all_done()
        assert not taking.is_answered, "its record is not committed yet"
        assert b.replicated(taking) == (old.producer_id, old.producer_epoch + 2)
        assert len(b.txn.parked) == 0


async def test_a_parked_init_ends_with_its_time_and_too_many_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-172."""
    monkeypatch.setattr(parked_calls, "WAIT_S", 0.01)
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        b.begun(0)
        calls = [b.init() for _ in range(parked_calls.PARKED_MAX + 1)]
        b.replicate()
        assert "too many calls" in str(error_of(calls[-1].reply))
        reply = await calls[0].answered()
        assert isinstance(reply, ConcurrentTransactions)
        assert "the call has waited" in str(reply)
        await asyncio.gather(*(call.answered() for call in calls))
        b.sender.sent[0].all_done()
        b.replicate()
        assert b.state() == "CompleteAbort", "no call that is over takes an epoch"


async def test_the_first_partitions_of_the_next_transaction_wait_for_the_markers_of_the_last(
    tmp_path: Path,
) -> None:
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        producer = b.begun(0)
        b.replicated(b.end(producer, version=0))
        added = b.add(producer, 1, version=0, waits=True)
        b.replicate()
        assert not added.is_answered
        b.sender.sent[0].all_done()
        assert b.state() == "Ongoing"
        assert not added.is_answered, "its record is not committed yet (I-104)"
        assert b.replicated(added) == PartitionsAdded((None,))
        assert len(b.txn.parked) == 0


async def test_partitions_wait_for_a_short_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-172: later requests of the connection wait behind the call."""
    monkeypatch.setattr(parked_calls, "ADD_WAIT_S", 0.01)
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        producer = b.begun(0)
        b.replicated(b.end(producer, version=0))
        added, begun_again = b.add(producer, 1, version=0, waits=True), b.init()
        reply = await added.answered()
        assert isinstance(reply, ConcurrentTransactions)
        assert "the call has waited 0.01 s" in str(reply)
        assert not begun_again.is_answered
        b.sender.sent[0].all_done()
        assert b.replicated(begun_again).producer_epoch == producer.producer_epoch + 1
        assert b.state() == "Empty", "a call that is over begins nothing"


async def test_a_lost_leadership_ends_parked_calls_and_stops_the_markers(tmp_path: Path) -> None:
    """I-110."""
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        old = b.begun(0)
        taking, adding = b.init(), b.add(old, waits=True)
        b.replicate()
        await b.follow(2)
        assert isinstance(error_of(taking.reply), NotCoordinator)
        assert isinstance(error_of(adding.reply), NotCoordinator)
        assert b.sender.cancelled == [("x", 1)]
        with pytest.raises(NotCoordinator, match="does not coordinate transactional id 'x'"):
            b.transactions.of("x")


async def test_coordinator_dies_each_step(tmp_path: Path) -> None:
    """Golden history 30: mutants 43, 44, 55, 56, 59; I-163, I-174."""
    async with transaction_broker(tmp_path) as b:
        epoch = 1
        await b.lead(epoch)

        async def fail_over() -> None:
            nonlocal epoch
            epoch += 2
            await b.follow(epoch - 1)
            await b.lead(epoch)
            b.replicate()
            await b.serves_transactions()

        producer = b.replicated(b.init())
        await fail_over()
        producer = b.replicated(b.init(producer=producer))
        b.replicated(b.add(producer, 0, 1))
        await fail_over()
        assert b.state() == "Ongoing"
        following = b.replicated(b.end(producer))
        b.sender.sent[-1].done((ORDERS_ID, 0))
        late = b.sender.sent[-1]
        await fail_over()
        assert error_of(b.replicated(b.end(producer))).code == 51
        again = b.sender.sent[-1]
        assert again is not late
        assert again.places == ((ORDERS_ID, 0), (ORDERS_ID, 1)), "all of them again"
        assert again.marker.coordinator_epoch == epoch
        assert again.marker.is_commit
        late.all_done()
        assert b.state() == "PrepareCommit", "of an earlier leadership"
        again.all_done()
        b.replicate()
        await fail_over()
        assert b.replicated(b.end(producer)) == following
        assert error_of(b.replicated(b.end(producer, commit=False))).code == 48
        assert len(b.sender.sent) == 2


async def test_a_deleted_topics_marker_is_done_and_a_recreated_ones_goes_there(
    tmp_path: Path,
) -> None:
    """Golden history 35."""
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        producer = b.begun(0, 1)
        ended = b.end(producer)
        await b.set_topics({})
        b.replicated(ended)
        assert b.sender.sent == [], "no topic has the name"
        assert b.state() == "CompleteCommit"

        await b.set_topics({ORDERS_ID: (ORDERS, PARTITIONS)})
        following = ended.reply
        assert isinstance(following, Producer)
        b.replicated(b.add(following, 0))
        b.replicated(b.end(following))
        (sent,) = b.sender.sent
        await b.set_topics({RECREATED_ID: (ORDERS, 1)})
        sent.all_done()  # its topic's id is gone
        assert b.state() == "PrepareCommit"
        assert b.sender.sent[-1].places == ((RECREATED_ID, 0),)
        b.sender.sent[-1].all_done()
        assert b.state() == "CompleteCommit"


async def test_a_completion_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        producer = b.begun(0)
        b.replicated(b.end(producer))
        await b.lead(1, isr=(1,), min_insync=2)
        b.sender.sent[0].all_done()
        assert b.state() == "PrepareCommit"
        assert isinstance(error_of(b.init().reply), CoordinatorNotAvailable)
        await b.lead(1, min_insync=1)
        b.txn.context.timers._now_ms = lambda: 10**15
        b.txn.context.timers.fire()
        assert b.state() == "CompleteCommit"


async def test_a_transaction_past_its_timeout_is_aborted_and_needs_an_id_at_the_last_epoch(
    tmp_path: Path,
) -> None:
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        producer = b.begun(0)
        table = b.txn.transactions.table
        table["x"] = replace(table["x"], producer_epoch=DATA_EPOCH_MAX, started_ms=0)
        b.ids.left = 0
        assert b.txn.abort_timed_out() is False
        assert b.state() == "Ongoing"
        await b.ids.have_some()
        assert b.txn.abort_timed_out() is True
        b.replicate()
        (sent,) = b.sender.sent
        assert sent.marker.producer_epoch == DATA_EPOCH_MAX + 1
        sent.all_done()
        assert b.txn.transactions.table["x"].producer_epoch == 0
        stale = Producer(producer.producer_id, ProducerEpoch(DATA_EPOCH_MAX))
        assert error_of(b.replicated(b.end(stale))).code == 90


async def test_without_a_producer_id_at_hand_the_answer_says_so(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        b.ids.left = 0
        assert b.init().reply is NO_PRODUCER_ID_LEFT


async def test_a_broker_that_may_be_deposed_answers_after_a_write_only(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        producer = b.begun(0)
        assert b.verify(producer).is_answered
        b.unsure[0] = True
        verified = b.verify(producer)
        assert not verified.is_answered
        assert b.replicated(verified) == PartitionsAdded((None,))


async def test_ids_are_listed_and_described_as_they_are_committed(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        b.begun(0)
        other = b.init("y")
        listed = b.ask(ListTransactions())
        described = b.ask(DescribeTransaction("y"))
        assert not listed.is_answered
        assert not described.is_answered
        b.replicated(other)
        assert isinstance(listed.reply, Listed)
        assert {name: t.state for name, t in listed.reply.transactions.items()} == {
            "x": TransactionState.ONGOING,
            "y": TransactionState.EMPTY,
        }
        assert error_of(b.ask(DescribeTransaction("z")).reply).code == 105
        counted = {state.text: count for state, count in b.txn.states().items() if count}
        assert counted == {"Ongoing": 1, "Empty": 1}


async def test_an_id_that_no_record_could_hold_is_refused(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path) as b:
        await b.lead(1)
        for name, why in (("", "is empty"), ("x" * 32_768, "32767 are the most")):
            with pytest.raises(InvalidRequest, match=why):
                b.transactions.of(name)
