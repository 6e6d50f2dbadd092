"""The transactional producer against scripted brokers: ends, lost answers, fencing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from strandline import Producer, TopicPartition
from strandline.errors import (
    AbortableTransactionError,
    CommitOutcomeUnknown,
    ConfigurationError,
    FatalTransactionError,
    InvalidTransactionTimeout,
    OperationTimedOut,
    ProducerFenced,
    RecordTooLarge,
    StrandlineError,
    TransactionAborted,
    TransactionFenced,
    WrongTransactionState,
)
from strandline.group_types import ConsumerGroupMetadata
from strandline_proto import errors as wire
from strandline_proto.batch import read_header
from support.replica_nodes import eventually
from support.scripted_broker import ScriptedCluster, scripted_cluster
from support.scripted_log import Act
from support.scripted_transactions import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LOST = Reply(carries_out=True, answers=False)
UNHEARD = Reply(answers=False)
GROUP = ConsumerGroupMetadata("g", -1, "", None)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(2) as scripted:
        scripted.create("orders", 2)
        yield scripted


@pytest_asyncio.fixture
async def producer(cluster: ScriptedCluster) -> AsyncIterator[Producer]:
    async with Producer(
        cluster.bootstrap, transactional_id="pay", request_timeout_ms=1_500
    ) as started:
        yield started


def committed(cluster: ScriptedCluster, topic: str = "orders") -> list[bytes | None]:
    """What a reader of committed transactions gets, by a scan of the logs."""
    found: list[bytes | None] = []
    for p in cluster.topics[topic][1]:
        dead = [(pid, first, last) for pid, first, last in p.aborted]
        for base, header in ((b[0], read_header(b[1])) for b in p.batches):
            is_dead = any(header.producer_id == d[0] and d[1] <= base < d[2] for d in dead)
            if base < p.stable_end and not is_dead and not header.is_control:
                found += [r.value for r in p.records() if base <= r.offset < header.next_offset]
    return found


async def test_a_commit_ends_the_transaction_and_the_next_has_its_own_epoch(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    for value in (b"a", b"b"):
        await producer.begin_transaction()
        await producer.send("orders", value, partition=0)
        await producer.send("orders", value, partition=1)
        await producer.commit_transaction()
    p = cluster.partition("orders")
    headers = [read_header(data) for _, data in p.batches]
    assert [(h.producer_epoch, h.base_sequence, h.is_transactional) for h in headers] == [
        (0, 0, True),
        (1, -1, True),
        (1, 0, True),
        (2, -1, True),
    ]
    assert committed(cluster) == [b"a", b"b"] * 2


async def test_an_abort_gives_up_what_is_not_acknowledged(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await producer.begin_transaction()
    sent = await producer.send("orders", b"a", partition=0)
    await sent
    cluster.partition("orders", 1).acts.append(Act(answer=False))
    late = await producer.send("orders", b"b", partition=1)
    await asyncio.sleep(0.05)
    await producer.abort_transaction()
    with pytest.raises(TransactionAborted):
        await late
    assert committed(cluster) == []
    async with producer.transaction():
        await producer.send("orders", b"c", partition=1)
    assert committed(cluster) == [b"c"]


async def test_a_transaction_without_records_asks_nobody(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    async with producer.transaction():
        pass
    await producer.begin_transaction()
    await producer.abort_transaction()
    assert cluster.transactions.calls == ["InitProducerId"]


@pytest.mark.parametrize("reply", [LOST, UNHEARD, Reply(wire.ConcurrentTransactions.code)])
@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
async def test_the_end_is_repeated_until_it_is_answered(
    cluster: ScriptedCluster, producer: Producer, reply: Reply, call: str
) -> None:
    for value in (b"a", b"b"):
        await producer.begin_transaction()
        await producer.send_and_wait("orders", value)
        cluster.transactions.ends.append(reply)
        await getattr(producer, call)()
    assert committed(cluster) == ([b"a", b"b"] if call == "commit_transaction" else [])


async def test_a_commit_without_an_answer_can_only_be_repeated(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"a")
    cluster.transactions.ends.extend([LOST, *[UNHEARD] * 100])
    with pytest.raises(CommitOutcomeUnknown, match=r"call commit_transaction\(\) again"):
        await producer.commit_transaction(timeout_ms=300)
    for call in (
        producer.abort_transaction(),
        producer.begin_transaction(),
        producer.send("orders", b"b"),
    ):
        with pytest.raises(WrongTransactionState, match="only commit_transaction is allowed"):
            await call
    cluster.transactions.ends.clear()
    await producer.commit_transaction()
    assert committed(cluster) == [b"a"]
    async with producer.transaction():
        await producer.send("orders", b"b")
    assert committed(cluster) == [b"a", b"b"]


async def test_an_abort_without_an_answer_is_repeated(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"a")
    cluster.transactions.ends.extend([LOST, *[UNHEARD] * 100])
    with pytest.raises(OperationTimedOut, match=r"call abort_transaction\(\) again"):
        await producer.abort_transaction(timeout_ms=300)
    with pytest.raises(WrongTransactionState, match="only abort_transaction is allowed"):
        await producer.commit_transaction()
    cluster.transactions.ends.clear()
    await producer.abort_transaction()
    assert committed(cluster) == []


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ([], "no transaction is open; only begin_transaction is allowed"),
        (["begin"], "allowed are send, send_offsets_to_transaction, commit"),
    ],
)
async def test_a_call_in_the_wrong_state_names_the_state_and_what_is_allowed(
    producer: Producer, calls: list[str], wanted: str
) -> None:
    if calls:
        await producer.begin_transaction()
        wrong = [producer.begin_transaction()]
    else:
        wrong = [
            producer.commit_transaction(),
            producer.abort_transaction(),
            producer.send("orders", b"a"),  # type: ignore[list-item]
            producer.send_many("orders", [b"a"]),  # type: ignore[list-item]
            producer.send_offsets_to_transaction({("orders", 0): 1}, GROUP),
        ]
    for call in wrong:
        with pytest.raises(WrongTransactionState, match=wanted) as raised:
            await call
        assert "'pay'" in str(raised.value)


async def test_calls_about_transactions_need_a_transactional_id(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.bootstrap) as plain:
        for call in (plain.begin_transaction(), plain.commit_transaction()):
            with pytest.raises(ConfigurationError, match="transactional_id"):
                await call
        with pytest.raises(ConfigurationError, match="transactional_id"):
            plain.transaction()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"acks": 1}, "acks=1 cannot go with a transactional_id"),
        ({"enable_idempotence": False}, "enable_idempotence=False cannot go"),
        ({"transactional_id": ""}, "transactional_id is empty"),
        ({"transactional_id": "x" * 40_000}, "has 40000 bytes"),
        ({"transaction_timeout_ms": 0}, "transaction_timeout_ms"),
        ({"transaction_timeout_ms": "5"}, "transaction_timeout_ms"),
    ],
)
def test_options_that_no_transaction_can_have(options: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        Producer("h:1", **{"transactional_id": "pay"} | options)  # type: ignore[arg-type]


async def test_a_timeout_above_the_brokers_bound_fails_the_start(cluster: ScriptedCluster) -> None:
    cluster.transactions.inits.append(Reply(wire.InvalidTransactionTimeout.code))
    producer = Producer(cluster.bootstrap, transactional_id="pay")
    with pytest.raises(InvalidTransactionTimeout):
        await producer.start()
    await producer.start()
    await producer.stop()


async def test_a_second_producer_fences_the_first_at_its_next_call(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"a", partition=0)
    async with Producer(cluster.bootstrap, transactional_id="pay") as second:
        async with second.transaction():
            await second.send("orders", b"b", partition=0)
        with pytest.raises(TransactionFenced, match="another producer has started with it"):
            await producer.commit_transaction()
        for call in (producer.abort_transaction(), producer.begin_transaction()):
            with pytest.raises(ProducerFenced):
                await call
        with pytest.raises(FatalTransactionError):
            await producer.send("orders", b"c")
        async with second.transaction():
            await second.send("orders", b"d", partition=0)
    assert committed(cluster) == [b"b", b"d"]


@pytest.mark.parametrize("partition", [0, 1], ids=["where a marker was", "elsewhere"])
async def test_the_data_of_a_fenced_producer_is_refused(
    cluster: ScriptedCluster, producer: Producer, partition: int
) -> None:
    async def work() -> None:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"a", partition=0)
            cluster.transactions.init("pay")
            await producer.send("orders", b"b", partition=partition)

    with pytest.raises(ProducerFenced):
        await work()
    assert committed(cluster) == []


async def test_an_expired_id_is_fatal(cluster: ScriptedCluster, producer: Producer) -> None:
    """Its fence is gone: a new id would let two producers write (P-114)."""
    await producer.begin_transaction()
    await producer.send("orders", b"a", partition=0)
    cluster.transactions.ids.clear()
    with pytest.raises(StrandlineError, match="cannot go on") as raised:
        await producer.commit_transaction()
    assert isinstance(raised.value, FatalTransactionError)
    with pytest.raises(FatalTransactionError):
        await producer.begin_transaction()
    assert not cluster.transactions.ids
    assert committed(cluster) == []


async def test_a_failed_record_leaves_only_the_abort(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    cluster.partition("orders").acts.append(Act(wire.RecordTooLarge.code))
    await producer.begin_transaction()
    await producer.send("orders", b"lost", partition=0)
    await producer.send("orders", b"a", partition=1)
    with pytest.raises(AbortableTransactionError, match=r"abort_transaction\(\)") as raised:
        await producer.commit_transaction()
    assert isinstance(raised.value.cause, RecordTooLarge)
    for call in (producer.commit_transaction(), producer.begin_transaction()):
        with pytest.raises(AbortableTransactionError):
            await call
    with pytest.raises(AbortableTransactionError):
        await producer.send("orders", b"b")
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send("orders", b"c", partition=0)
    assert committed(cluster) == [b"c"]


async def test_a_block_that_raises_aborts(cluster: ScriptedCluster, producer: Producer) -> None:
    async def work() -> None:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert cluster.transactions.calls[-1] == "abort"
    async with producer.transaction():
        await producer.send_and_wait("orders", b"b")
    assert committed(cluster) == [b"b"]


async def test_a_cancelled_block_aborts(cluster: ScriptedCluster, producer: Producer) -> None:
    async def work() -> None:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"a")
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await eventually(lambda: sum(p.end for p in cluster.topics["orders"][1]) > 0, "the record")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cluster.transactions.calls[-1] == "abort"
    assert committed(cluster) == []


async def test_a_cancelled_commit_does_not_abort(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    async def work() -> None:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"a")
            cluster.transactions.held.clear()

    task = asyncio.create_task(work())
    await eventually(lambda: "commit" in cluster.transactions.calls, "the call")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "abort" not in cluster.transactions.calls
    with pytest.raises(WrongTransactionState, match="the outcome of the commit is unknown"):
        await producer.abort_transaction()
    cluster.transactions.held.set()
    await producer.commit_transaction()
    assert committed(cluster) == [b"a"]


async def test_the_context_manager_repeats_a_commit_up_to_its_deadline(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    async def work() -> None:
        async with producer.transaction(timeout_ms=10):
            await producer.send_and_wait("orders", b"a")
            cluster.transactions.ends.extend([UNHEARD] * 100)

    with pytest.raises(CommitOutcomeUnknown, match="commit_transaction"):
        await work()
    cluster.transactions.ends.clear()
    await producer.commit_transaction()
    assert committed(cluster) == [b"a"]


async def test_the_end_of_a_producer_aborts_its_transaction(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.bootstrap, transactional_id="pay") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"a")
        lost = await producer.send("orders", b"b")
    assert cluster.transactions.calls[-1] == "abort"
    assert committed(cluster) == []
    assert lost.done()


async def test_offsets_are_committed_with_the_transaction(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    topic_id = cluster.topics["orders"][0]
    group = cluster.groups.group("g")
    async with producer.transaction():
        await producer.send_offsets_to_transaction({TopicPartition("orders", 1): 7}, GROUP)
        assert group.offsets == {}
    assert group.offsets == {(topic_id, 1): (7, -1, "")}

    async def work() -> None:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({("orders", 1): (8, "text")}, GROUP)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert group.offsets == {(topic_id, 1): (7, -1, "")}


@pytest.mark.parametrize(
    "reply", [LOST, UNHEARD, Reply(wire.CoordinatorLoadInProgress.code), Reply(7)]
)
async def test_offsets_are_sent_until_they_are_taken(
    cluster: ScriptedCluster, producer: Producer, reply: Reply
) -> None:
    cluster.transactions.offset_commits.append(reply)
    async with producer.transaction():
        await producer.send_offsets_to_transaction({("orders", 1): 7}, GROUP)
    assert [at[0] for at in cluster.groups.group("g").offsets.values()] == [7]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (wire.IllegalGeneration.code, AbortableTransactionError),
        (wire.UnknownMemberId.code, AbortableTransactionError),
        (wire.StaleMemberEpoch.code, AbortableTransactionError),
        (wire.TransactionAbortable.code, AbortableTransactionError),
        (wire.FencedInstanceId.code, FatalTransactionError),
        (wire.InvalidProducerIdMapping.code, FatalTransactionError),
        (wire.ProducerFenced.code, TransactionFenced),
    ],
)
async def test_offsets_that_a_group_refuses_fail_the_transaction(
    cluster: ScriptedCluster, producer: Producer, code: int, kind: type[Exception]
) -> None:
    cluster.transactions.offset_commits.append(Reply(code))
    await producer.begin_transaction()
    with pytest.raises(kind):
        await producer.send_offsets_to_transaction({("orders", 0): 7}, GROUP)
    with pytest.raises(kind):
        await producer.commit_transaction()
    if kind is AbortableTransactionError:
        await producer.abort_transaction()
        await producer.begin_transaction()


async def test_offsets_cut_short_leave_only_the_abort(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await producer.begin_transaction()
    cluster.transactions.held.clear()
    task = asyncio.create_task(producer.send_offsets_to_transaction({("orders", 0): 7}, GROUP))
    await eventually(lambda: "offsets" in cluster.transactions.calls, "the call")
    with pytest.raises(WrongTransactionState, match="offsets are being sent"):
        await producer.commit_transaction()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cluster.transactions.held.set()
    with pytest.raises(AbortableTransactionError, match="cancelled"):
        await producer.commit_transaction()
    await producer.abort_transaction()
    assert cluster.groups.group("g").offsets == {}


async def test_a_timed_out_transaction_is_fenced(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"a")
    cluster.transactions.expire("pay")
    with pytest.raises(TransactionFenced, match="transaction_timeout_ms"):
        await producer.commit_transaction()


async def test_the_coordinator_moves(cluster: ScriptedCluster, producer: Producer) -> None:
    for coordinator, value in ((2, b"a"), (1, b"b")):
        async with producer.transaction():
            await producer.send("orders", value)
            cluster.transactions.coordinator = cluster.groups.coordinator = coordinator
    assert sorted(map(bytes, filter(None, committed(cluster)))) == [b"a", b"b"]
