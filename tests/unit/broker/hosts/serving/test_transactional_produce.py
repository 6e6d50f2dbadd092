"""Transactional batches at a partition's leader, with a coordinator that answers when told to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.replica.end_markers import append_marker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.replica.record_check import RecordChecks
from strandline_broker.hosts.serving.produce import ProduceService
from strandline_broker.hosts.serving.produce_requests import ProduceDeadlines, RequestedAppends
from strandline_proto import errors
from strandline_proto.batch import build_batch
from strandline_proto.errors import NONE
from strandline_proto.hot_messages import ProduceData, ProduceResponse, ProduceResult
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId
from strandline_runtime.real import real_runtime
from support.producer_log import CONTROL, TRANSACTIONAL, idempotent_batch, with_attributes
from support.replica_nodes import TOPIC_ID, decide, eventually, run_node, state
from support.scripted_verifier import ScriptedVerifier, transactional, waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_broker.hosts.replica.partition import Partition
    from support.replica_nodes import Node

PID = 7
TV1, TV2 = 1, 2


@dataclass
class Leader:
    """A broker that leads partitions 0 and 1 alone."""

    node: Node
    service: ProduceService
    verifier: ScriptedVerifier
    deadlines: ProduceDeadlines
    answers: dict[int, ProduceResponse] = field(default_factory=dict)

    @property
    def partition(self) -> Partition:
        return self.node.partition

    def end(self, partition: int = 0) -> int:
        return self.node.replicas.partitions[TOPIC_ID, partition].log.log_end_offset

    async def send(
        self,
        number: int,
        *batches: bytes,
        transactional_id: str | None = "pay",
        version: int = TV2,
        acks: int = -1,
        timeout_ms: int = 60_000,
        epoch: int | None = None,
        connection: object = None,
    ) -> RequestedAppends:
        """Sends one request with a batch for each partition, from 0 on."""
        request = RequestedAppends(
            self.service,
            self.node.metadata,
            "PLAINTEXT",
            self.deadlines,
            lambda response: self.answers.__setitem__(number, response),
            correlation_id=number,
            acks=acks,
            timeout_ms=timeout_ms,
            transactional_id=transactional_id,
            transaction_version=version,
            connection=connection,
        )
        datas = [ProduceData(TOPIC_ID, i, batch, epoch) for i, batch in enumerate(batches) if batch]
        await request.start(datas, {})
        return request

    def results(self, number: int) -> list[ProduceResult]:
        return self.answers[number].partitions

    def outcome(self, number: int) -> tuple[int, int]:
        """(error code, base offset) of a request with one batch."""
        (result,) = self.results(number)
        assert result.appended is (result.error_code == NONE)
        return result.error_code, result.base_offset


@asynccontextmanager
async def leader(path: Path, *, isr: tuple[int, ...] = (1,)) -> AsyncIterator[Leader]:
    async with run_node(path, 1) as node:
        alone = state(1, epoch=0, isr=isr, replicas=isr, min_insync=1)
        await decide(alone, node)
        await decide(replace(alone, partition=1), node)
        runtime = real_runtime("broker-1")
        thread = runtime.serial_executor("record-checks")
        checks = RecordChecks(runtime.clock, node.replicas.partitions, thread)
        verifier = ScriptedVerifier()
        service = ProduceService(node.replicas, node.metadata, checks, verifier)
        yield Leader(node, service, verifier, ProduceDeadlines())


def marker(epoch: int, *, version: int = TV2, coordinator: int = 0) -> EndMarker:
    ids = ProducerId(PID), ProducerEpoch(epoch)
    return EndMarker(*ids, False, LeaderEpoch(coordinator), version)


@pytest.mark.parametrize(("version", "verify_only"), [(TV1, True), (TV2, False)])
async def test_the_first_batch_of_a_transaction_waits_for_the_coordinator(
    tmp_path: Path, version: int, verify_only: bool
) -> None:
    """I-157: it is asked for once, and the next batches need no answer."""
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0), version=version)
        (asked,) = b.verifier.asked
        assert (asked.transactional_id, asked.producer) == ("pay", (PID, 0))
        assert (asked.tp, asked.verify_only) == ((TOPIC_ID, 0), verify_only)
        assert (b.end(), b.answers, waiting(b.partition)) == (0, {}, 1)
        await b.verifier.answer()
        assert b.outcome(1) == (NONE, 0)
        await b.send(2, transactional(1), version=version)
        assert b.outcome(2) == (NONE, 1)
        assert (len(b.verifier.asked), waiting(b.partition)) == (1, 0)
        assert b.service._room.taken == 0


async def test_the_batches_of_a_producer_keep_their_order_and_others_pass(tmp_path: Path) -> None:
    """P-37."""
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0, b"a", b"b"))
        await b.send(2, transactional(2, b"c"))
        await b.send(3, idempotent_batch(9, 0, b"other"), transactional_id=None)
        await b.send(4, build_batch([(None, b"plain")], timestamp_ms=1), transactional_id=None)
        await b.send(5, transactional(0, b"else", producer_id=8), transactional_id="else")
        assert [b.outcome(n) for n in (3, 4)] == [(NONE, 0), (NONE, 1)]
        assert ([each.producer for each in b.verifier.asked]) == [(PID, 0), (8, 0)]
        await b.verifier.answer()
        assert [b.outcome(n) for n in (1, 2)] == [(NONE, 2), (NONE, 4)]
        assert 5 not in b.answers
        await b.verifier.answer()
        assert b.outcome(5) == (NONE, 5)


async def test_other_partitions_of_the_request_do_not_wait(tmp_path: Path) -> None:
    async with leader(tmp_path) as b:
        await b.send(1, b"", transactional(0))
        await b.verifier.answer()
        await b.send(2, transactional(0), transactional(1))
        assert (b.end(0), b.end(1)) == (0, 2), "partition 1 is in the transaction already"
        assert 2 not in b.answers, "the request is answered once all of it is known"
        await b.verifier.answer()
        assert [(r.error_code, r.base_offset) for r in b.results(2)] == [(NONE, 0), (NONE, 1)]


async def test_a_refusal_of_the_coordinator_is_the_answer_and_the_next_try_asks_again(
    tmp_path: Path,
) -> None:
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0))
        await b.send(2, transactional(1))
        await b.verifier.answer(errors.TransactionAbortable("not ongoing"))
        assert [b.outcome(n) for n in (1, 2)] == [(120, -1), (120, -1)]
        assert b.results(1)[0].error_message == "not ongoing"
        assert (b.end(), waiting(b.partition), b.service._room.taken) == (0, 0, 0)
        await b.send(3, transactional(0))
        await b.verifier.answer()
        assert (b.outcome(3), len(b.verifier.asked)) == ((NONE, 0), 2)


async def test_a_marker_between_question_and_answer_ends_the_wait(tmp_path: Path) -> None:
    """P-106 with the producer's next epoch: the answer "yes" does not count."""
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0))
        await b.send(2, transactional(1))
        assert append_marker(b.partition, marker(1)) is not None
        assert [b.outcome(n) for n in (1, 2)] == [(47, -1), (47, -1)]
        assert b.verifier.asked[0].answer.cancelled()
        assert b.end() == 1
        await b.send(3, transactional(0))
        assert b.outcome(3) == (47, -1), "epoch before guard (P-120)"
        await b.send(4, transactional(0, epoch=1))
        await b.verifier.answer()
        assert b.outcome(4) == (NONE, 1)


async def test_a_late_marker_of_the_transaction_before_voids_no_guard(tmp_path: Path) -> None:
    """P-117: it has the epoch of the next transaction's data."""
    async with leader(tmp_path) as b:
        append_marker(b.partition, marker(1))
        await b.send(1, transactional(0, epoch=1))
        assert append_marker(b.partition, marker(1)) is None, "repeated (I-156)"
        await b.verifier.answer()
        assert (b.outcome(1), len(b.verifier.asked)) == ((NONE, 1), 1)


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_in_one_epoch_for_all_transactions_the_coordinator_is_asked_again(
    tmp_path: Path, is_repeated: bool
) -> None:
    """I-158, history 29: "yes", marker, append by the old guard."""
    async with leader(tmp_path) as b:
        if is_repeated:
            append_marker(b.partition, marker(0, version=TV1))
        before = b.end()
        await b.send(1, transactional(0), version=TV1)
        await b.send(2, transactional(1), version=TV1)
        old = b.verifier.asked[0].answer
        old.set_result(None)  # on its way
        append_marker(b.partition, marker(0, version=TV1))
        after = b.end()
        assert after == before + (not is_repeated)
        await asyncio.sleep(0)
        assert (b.end(), b.answers, len(b.verifier.open)) == (after, {}, 1)
        await b.verifier.answer(errors.TransactionAbortable("ended"))
        assert [b.outcome(n) for n in (1, 2)] == [(120, -1), (120, -1)]
        assert b.end() == after, "nothing opens a transaction that nobody ends (P-106)"


async def test_the_end_of_the_leadership_refuses_what_is_not_verified(tmp_path: Path) -> None:
    """P-25, and an answer that comes later appends nothing."""
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0))
        await decide(state(1, epoch=1, isr=(1,), replicas=(1,), min_insync=1), b.node)
        assert b.outcome(1) == (errors.NotLeaderOrFollower.code, -1)
        assert b.verifier.asked[0].answer.cancelled()
        await b.send(2, transactional(0), epoch=0)
        assert b.outcome(2)[0] == errors.FencedLeaderEpoch.code
        await b.send(3, transactional(0), epoch=1)
        await b.verifier.answer()
        assert (b.outcome(3), b.end()) == ((NONE, 0), 1)


async def test_the_answer_meets_too_few_replicas_in_sync(tmp_path: Path) -> None:
    """I-20: the append checks again."""
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0))
        alone = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=2, partition_epoch=9)
        await decide(alone, b.node)
        await b.verifier.answer()
        assert (b.outcome(1), b.end()) == ((errors.NotEnoughReplicas.code, -1), 0)
        await b.send(2, transactional(0))
        assert b.outcome(2) == (errors.NotEnoughReplicas.code, -1)
        assert len(b.verifier.asked) == 1, "not asked for a batch that is refused anyway"


async def test_the_answer_meets_a_newer_epoch_or_another_sequence(tmp_path: Path) -> None:
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0))
        await b.send(2, transactional(0, epoch=1))
        await b.send(3, transactional(5, epoch=1))
        old, new = b.verifier.open
        new.answer.set_result(None)
        await asyncio.sleep(0)
        assert [b.outcome(n) for n in (2, 3)] == [(NONE, 0), (45, -1)]
        old.answer.set_result(None)
        await asyncio.sleep(0)
        assert (b.outcome(1), b.end()) == ((47, -1), 1)


async def test_a_repeated_batch_waits_with_the_first_and_is_appended_once(tmp_path: Path) -> None:
    """A client that connects again sends what it has no answer for."""
    async with leader(tmp_path) as b:
        for number in (1, 2):
            await b.send(number, transactional(0))
            await b.send(10 + number, transactional(1))
        await b.verifier.answer()
        assert [b.outcome(n) for n in (1, 11, 2, 12)] == [(NONE, 0), (NONE, 1)] * 2
        assert b.end() == 2
        await b.send(3, transactional(1))
        assert b.outcome(3) == (NONE, 1), "a duplicate (I-55)"


async def test_the_requests_time_limit_ends_the_wait_and_nothing_is_appended_later(
    tmp_path: Path,
) -> None:
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0), timeout_ms=1)
        await b.send(2, transactional(1), timeout_ms=60_000)
        await eventually(lambda: 1 in b.answers, "the time limit")
        assert b.outcome(1) == (errors.RequestTimedOut.code, -1)
        assert "nothing was appended" in b.results(1)[0].error_message
        assert not b.verifier.asked[0].answer.done(), "the other batch still waits"
        await b.verifier.answer()
        assert (b.outcome(2), b.end()) == ((45, -1), 0), "its predecessor is missing"
        await b.send(3, transactional(0), timeout_ms=1)
        await eventually(lambda: 3 in b.answers, "the time limit")
        assert b.verifier.asked[1].answer.cancelled(), "nobody waits"
        assert (waiting(b.partition), b.service._room.taken) == (0, 0)


async def test_after_the_append_the_time_limit_is_that_of_the_acks(tmp_path: Path) -> None:
    async with leader(tmp_path, isr=(1, 2)) as b:
        request = await b.send(1, transactional(0))
        await b.verifier.answer()
        assert (b.end(), b.answers) == (1, {})
        request.time_out()
        (result,) = b.results(1)
        assert (result.error_code, result.appended) == (errors.RequestTimedOut.code, True)


async def test_a_client_that_leaves_takes_its_batches_along(tmp_path: Path) -> None:
    async with leader(tmp_path, isr=(1, 2)) as b:
        appended = await b.send(1, b"", transactional(0))
        await b.verifier.answer()
        gone = await b.send(2, transactional(0))
        stays = await b.send(3, transactional(0))
        gone.abandon()
        appended.abandon()
        assert waiting(b.partition) == 1
        await b.verifier.answer()
        assert b.end(0) == b.end(1) == 1
        assert b.answers == {}, "the one waits for its acks, the others have no client"
        gone = await b.send(4, transactional(0, producer_id=8))
        gone.abandon()
        stays.abandon()
        assert b.verifier.asked[-1].answer.cancelled()
        assert (b.answers, b.service._room.taken) == ({}, 0)


async def test_waiting_batches_have_a_bound(tmp_path: Path) -> None:
    async with leader(tmp_path) as b:
        batch = transactional(0)
        b.service._room.bytes_max = len(batch)
        await b.send(1, batch)
        await b.send(2, transactional(1))
        await b.send(3, transactional(0, producer_id=8))
        refused = [(errors.ThrottlingQuotaExceeded.code, -1)] * 2
        assert [b.outcome(n) for n in (2, 3)] == refused
        assert len(b.verifier.asked) == 1
        await b.verifier.answer()
        await b.send(4, transactional(1))
        assert b.outcome(4) == (NONE, 1)


PLAIN = idempotent_batch(PID, 0, b"v")


@pytest.mark.parametrize(
    ("batch", "transactional_id", "acks", "code"),
    [
        (PLAIN, "pay", -1, 48),
        (transactional(0), None, -1, 42),
        (transactional(0), "", -1, 42),
        (transactional(0), "pay", 1, 21),
        (build_batch([(None, b"v")], timestamp_ms=1), "pay", -1, 42),
        (
            with_attributes(build_batch([(None, b"v")], timestamp_ms=1), TRANSACTIONAL),
            "pay",
            -1,
            42,
        ),
        (with_attributes(PLAIN, TRANSACTIONAL | CONTROL), "pay", -1, 87),
        (with_attributes(PLAIN, CONTROL), None, -1, 87),
        (transactional(1), "pay", -1, 45),
    ],
)
async def test_what_is_no_batch_of_a_transaction_is_refused(
    tmp_path: Path, batch: bytes, transactional_id: str | None, acks: int, code: int
) -> None:
    """I-160: nothing was written, and nobody was asked."""
    async with leader(tmp_path) as b:
        await b.send(1, batch, transactional_id=transactional_id, acks=acks)
        assert b.outcome(1) == (code, -1)
        assert b.results(1)[0].error_message
        assert (b.end(), b.verifier.asked) == (0, [])


async def test_a_plain_batch_in_its_producers_transaction_is_refused(tmp_path: Path) -> None:
    """I-160: while it is open, and while it waits to be."""
    async with leader(tmp_path) as b:
        await b.send(1, PLAIN, transactional_id=None)
        await b.send(2, transactional(1))
        await b.send(3, idempotent_batch(PID, 1, b"v"), transactional_id=None)
        assert b.outcome(3) == (48, -1)
        await b.verifier.answer()
        await b.send(4, idempotent_batch(PID, 2, b"v"), transactional_id=None)
        assert (b.outcome(2), b.outcome(4)) == ((NONE, 1), (48, -1))
        assert "began at offset 1, is still open" in b.results(4)[0].error_message
        await b.send(5, PLAIN, transactional_id=None)
        assert b.outcome(5) == (NONE, 0), "a duplicate from before it (I-55)"
        append_marker(b.partition, marker(0, version=TV1))
        await b.send(6, idempotent_batch(PID, 2, b"v"), transactional_id=None)
        assert b.outcome(6) == (NONE, 3)


async def test_the_next_transaction_waits_for_the_marker_of_the_one_before(tmp_path: Path) -> None:
    """P-117: the producer begins once its commit is decided. The coordinator lets the batch wait
    until all markers are written.
    """
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0))
        await b.verifier.answer()
        await b.send(2, transactional(0, epoch=1))
        append_marker(b.partition, marker(1))
        assert (len(b.verifier.open), 2 in b.answers) == (1, False)
        await b.verifier.answer()
        assert (b.outcome(2), len(b.verifier.asked)) == ((NONE, 2), 2)


async def test_no_answer_joins_two_transactions(tmp_path: Path) -> None:
    """A "yes" while the transaction before is open comes from a coordinator gone wrong."""
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0))
        await b.verifier.answer()
        await b.send(2, transactional(0, epoch=1))
        await b.verifier.answer()
        assert (b.outcome(2), b.end()) == ((48, -1), 1)


async def test_without_a_verifier_transactions_are_refused(tmp_path: Path) -> None:
    async with leader(tmp_path) as b:
        b.service._verifier = None
        await b.send(1, transactional(0))
        assert b.outcome(1) == (errors.UnsupportedVersion.code, -1)


async def test_a_forgotten_producer_goes_on_with_its_lowest_sequence(tmp_path: Path) -> None:
    """I-56 with P-127: its first batch is repeated until it is verified."""
    async with leader(tmp_path) as b:
        connection = object()
        send = {"version": TV1, "connection": connection}
        await b.send(1, transactional(5), **send)  # type: ignore[arg-type]
        assert b.outcome(1)[0] == errors.UnknownProducerId.code
        await b.send(2, transactional(5), **send)  # type: ignore[arg-type]
        await b.send(3, transactional(6), **send)  # type: ignore[arg-type]
        assert len(b.verifier.asked) == 1
        await b.verifier.answer()
        assert [b.outcome(n) for n in (2, 3)] == [(NONE, 0), (NONE, 1)]


async def test_a_lower_sequence_that_comes_meanwhile_is_not_overtaken(tmp_path: Path) -> None:
    """P-127."""
    async with leader(tmp_path) as b:
        connection = object()
        send = {"version": TV1, "connection": connection}
        for number in (1, 2):
            await b.send(number, transactional(5), **send)  # type: ignore[arg-type]
        await b.send(3, transactional(0), **send)  # type: ignore[arg-type]
        await b.verifier.answer()
        assert [b.outcome(n)[0] for n in (2, 3)] == [45, NONE]


async def test_no_other_append_uses_the_guard_of_a_batch(tmp_path: Path) -> None:
    """The transaction is opened by another path meanwhile: the batch needs no guard, and no second
    answer.
    """
    async with leader(tmp_path) as b:
        await b.send(1, transactional(0))
        appends = check_leader(b.partition, None).appends
        assert len(appends.guards) == 1
        appends.guards.on_append(PID, 0)
        await b.verifier.answer()
        assert b.outcome(1) == (48, -1), "its guard is used up, and no transaction is open"
