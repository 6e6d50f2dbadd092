"""Questions to the coordinators of transactions, in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.transactions.verifying import (
    IN_FLIGHT_MAX,
    QUESTIONS_MAX,
    REQUEST_S,
    RETRY_S,
    Verifying,
)
from strandline_proto import errors
from strandline_proto.ids import BrokerId
from support.envelopes import topic_id
from support.scripted_peers import LISTENER, Cluster, ScriptedPeers, in_virtual_time, passes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from strandline_broker.hosts.transactions.broker_calls import PartitionsToAdd, Results
    from support.scripted_peers import Call

STATE = "__transaction_state"
ORDERS = topic_id(1)
ON_0, ON_1 = "tx-a", "tx-b"
"""Ids of partitions 0 and 1 of three (golden)."""


@dataclass
class Asking:
    cluster: Cluster
    peers: ScriptedPeers
    verifying: Verifying

    def ask(
        self, name: str = ON_0, index: int = 0, *, producer_id: int = 7, verify_only: bool = False
    ) -> asyncio.Future[None]:
        tp = (ORDERS, index)
        return self.verifying.ask(name, producer_id, 2, tp, verify_only=verify_only)

    @property
    def open(self) -> list[Call[PartitionsToAdd]]:
        return [call for call in self.peers.additions if not call.answer.done()]


async def turns(number: int = 6) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@asynccontextmanager
async def asking(*leaders: int | None) -> AsyncIterator[Asking]:
    cluster, peers = Cluster(), ScriptedPeers()
    if leaders:
        cluster.lead(STATE, 99, *leaders)
    verifying = Verifying(BrokerId(9), cluster.cache, LISTENER, peers)
    task = asyncio.get_running_loop().create_task(verifying.run())
    await turns()
    try:
        yield Asking(cluster, peers, verifying)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def error_of(answer: asyncio.Future[None]) -> type[BaseException] | None:
    error = answer.exception()
    return None if error is None else type(error)


def test_questions_go_to_their_coordinators_together() -> None:
    async def main() -> None:
        async with asking(1, 2, 3) as a:
            answers = [
                a.ask(index=0),
                a.ask(index=1),
                a.ask(index=2, verify_only=True),
                a.ask(ON_1, producer_id=8),
            ]
            await turns()
            first, second = a.open
            assert (first.broker_id, second.broker_id) == (1, 2)
            assert [tuple(each) for each in first.asked] == [
                (ON_0, 7, 2, False, [(ORDERS, 0), (ORDERS, 1)]),
                (ON_0, 7, 2, True, [(ORDERS, 2)]),
            ]
            first.succeed(None, errors.InvalidProducerEpoch("old"), None)
            await turns()
            assert [error_of(each) for each in answers[:3]] == [
                None,
                errors.InvalidProducerEpoch,
                None,
            ]
            assert not answers[3].done()
            second.succeed()
            await turns()
            assert error_of(answers[3]) is None

    in_virtual_time(main)


def test_few_requests_are_in_flight_and_none_is_too_large() -> None:
    async def main() -> None:
        async with asking(1, 1, 1) as a:
            answers = []
            for number in range(IN_FLIGHT_MAX + 3):
                answers.append(a.ask(producer_id=number))
                await turns()
            assert len(a.open) == IN_FLIGHT_MAX
            a.open[0].succeed()
            await turns()
            assert [each.producer_id for each in a.open[-1].asked] == [4, 5, 6]
            answers += [a.ask(index=index) for index in range(QUESTIONS_MAX + 1)]
            a.open[0].succeed()
            a.open[0].succeed()
            await turns()
            sizes = [sum(len(each.partitions) for each in call.asked) for call in a.open[-2:]]
            assert sizes == [QUESTIONS_MAX, 1]
            while a.open:
                a.open[0].succeed()
                await turns()
            assert all(error_of(each) is None for each in answers)

    in_virtual_time(main)


@pytest.mark.parametrize(
    "error",
    [errors.ConcurrentTransactions, errors.UnknownTopicId, errors.UnknownTopicOrPartition],
)
def test_a_coordinator_that_is_not_ready_is_asked_until_the_asker_gives_up(
    error: type[errors.WireError],
) -> None:
    """P-117: soon, at the coordinator of that moment."""

    async def main() -> None:
        async with asking(1, 1, 1) as a:
            answer, gives_up = a.ask(index=0), a.ask(index=1)
            for number in range(5):
                await turns()
                a.open[0].succeed(*[error("busy")] * 2)
                await passes(RETRY_S + 0.001)
                assert len(a.peers.additions) == 2 + number
            gives_up.cancel()
            a.cluster.lead(STATE, 99, 2, 1, 1)
            a.open[0].succeed(*[error("busy")] * 2)
            await passes(RETRY_S + 0.001)
            (call,) = a.open
            assert (call.broker_id, call.asked[0].partitions) == (2, [(ORDERS, 0)])
            call.succeed()
            await turns()
            assert error_of(answer) is None

    in_virtual_time(main)


def test_pauses_between_questions_begin_short_and_double_up_to_the_limit() -> None:
    """A transaction that completes soon delays the next one by little."""

    async def main() -> None:
        async with asking(1, 1, 1) as a:
            answer = a.ask()
            await turns()
            for asked, pause_s in enumerate((0.002, 0.004, 0.008, 0.016, RETRY_S, RETRY_S), 1):
                a.open[0].succeed(errors.ConcurrentTransactions("busy"))
                await passes(pause_s - 0.0005)
                assert len(a.peers.additions) == asked
                await passes(0.001)
                assert len(a.peers.additions) == asked + 1
            a.open[0].succeed()
            await turns()
            assert error_of(answer) is None

    in_virtual_time(main)


@pytest.mark.parametrize(
    "error",
    [errors.NotCoordinator, errors.TransactionAbortable, errors.ProducerFenced],
)
def test_any_other_error_is_the_answer(error: type[errors.WireError]) -> None:
    async def main() -> None:
        async with asking(1, 1, 1) as a:
            answer = a.ask()
            await turns()
            a.open[0].succeed(error("no"))
            await turns()
            assert error_of(answer) is error

    in_virtual_time(main)


def test_a_lost_answer_is_an_error_that_may_pass() -> None:
    async def main() -> None:
        async with asking(1, 1, 1) as a:
            answers = [a.ask(), a.ask(index=1)]
            await passes(REQUEST_S + 1)
            assert [error_of(each) for each in answers] == [errors.NetworkException] * 2
            assert len(a.peers.additions) == 1
            again = a.ask()
            await turns()
            a.open[0].succeed()
            await turns()
            assert error_of(again) is None

    in_virtual_time(main)


@pytest.mark.parametrize("leaders", [(), (None, 1, 1), (44, 1, 1)])
def test_without_a_coordinator_the_answer_comes_at_once(leaders: tuple[int | None, ...]) -> None:
    async def main() -> None:
        async with asking(*leaders) as a:
            answer = a.ask()
            await turns()
            assert error_of(answer) is errors.CoordinatorNotAvailable
            assert a.peers.additions == []

    in_virtual_time(main)


def test_a_question_that_nobody_asks_any_more_is_not_sent() -> None:
    async def main() -> None:
        async with asking(1, 1, 1) as a:
            a.ask().cancel()
            await turns()
            assert a.peers.additions == []
            gone, stays = a.ask(), a.ask(index=1)
            await turns()
            gone.cancel()
            a.open[0].succeed()
            await turns()
            assert error_of(stays) is None

    in_virtual_time(main)


def test_a_broker_that_stops_answers_all_questions() -> None:
    async def main() -> None:
        async with asking(1, 1, 1) as a:
            answers = [a.ask()]
            await turns()
            answers.append(a.ask(index=1))
        answers.append(a.ask(index=2))
        assert [error_of(each) for each in answers] == [errors.CoordinatorNotAvailable] * 3

    in_virtual_time(main)


def test_the_brokers_own_coordinator_takes_no_detour() -> None:
    async def main() -> None:
        async def here(asked: Sequence[PartitionsToAdd]) -> Results:
            return [[None, errors.ProducerFenced("no")] for _ in asked]

        cluster, peers = Cluster(), ScriptedPeers()
        cluster.lead(STATE, 99, 1, 1, 1)
        verifying = Verifying(BrokerId(1), cluster.cache, LISTENER, peers, here)
        task = asyncio.get_running_loop().create_task(verifying.run())
        await turns()
        a = Asking(cluster, peers, verifying)
        answers = [a.ask(), a.ask(index=1)]
        await turns()
        assert [error_of(each) for each in answers] == [None, errors.ProducerFenced]
        assert peers.additions == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(main)
