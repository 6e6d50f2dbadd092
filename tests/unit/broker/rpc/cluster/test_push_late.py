"""What a push does whose roles, or whose record, a disk holds up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.member.envelopes import AT_ONCE, Envelopes
from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_proto.errors import (
    KafkaStorageError,
    WireError,
)
from strandline_proto.ids import NO_LEADER, BrokerId
from support.pushed_broker import TOPIC_ID, ask, broker, given_up, push, with_topic
from support.scripted_controller import WAIT_S, running

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from strandline_broker.core.push_answer import FailedPartition
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.replica.partition import Partition


async def test_an_envelope_is_answered_without_a_replica_that_does_not_come_to_its_role(
    tmp_path: Path,
) -> None:
    """It fails alone (P-79, I-94), and nothing newer is applied before it is done (I-34)."""
    async with broker(tmp_path, session_s=0.3) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        async with partition.gate:
            answer = await ask(call, with_topic(push(10, 9), leader_epoch=1))
            assert answer.applied_metadata_offset == 10
            assert answer.topics[0].partitions[0].error_code == KafkaStorageError.code
            assert "0.2 s" in answer.topics[0].partitions[0].error_message
            answer = await ask(call, with_topic(push(11, 10), leader_epoch=2))
            assert "the role before" in answer.topics[0].partitions[0].error_message
            assert partition.role is None
        await given_up(call)
        assert partition.leader_epoch == 2
        answer = await ask(
            b.stub.LeaderAndIsr(), with_topic(push(11, 4, full=True), leader_epoch=2)
        )
        assert list(answer.topics) == []
        assert partition.leader_epoch == 2


async def test_who_is_deposed_on_the_way_to_its_role_does_not_lead(tmp_path: Path) -> None:
    """Heartbeats have said by then that it knows: it may be unfenced, and serve (I-83)."""
    async with broker(tmp_path, session_s=0.3) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        async with partition.gate:
            await ask(call, with_topic(push(10, 9), leader_epoch=1))
            for offset in (11, 12):  # of those that are put off the newest counts
                deposed = with_topic(push(offset, offset - 1), leader_epoch=offset - 9)
                deposed.leader_and_isr[0].partitions[0].leader = NO_LEADER
                await ask(call, deposed)
        async with asyncio.timeout(WAIT_S):
            while not partition.leader_epoch or partition.gate.locked():  # noqa: ASYNC110 - a task
                await asyncio.sleep(0)
        assert (partition.leader, partition.leader_epoch) == (None, 3)
        await given_up(call)


async def test_what_is_not_applied_is_told_though_no_disk_records_the_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One disk holds up both, and heartbeats have said that the push is applied (I-94)."""
    real, go_on, recorded = BrokerDirectories.update_state, threading.Event(), list[int]()

    def update_state(*arguments: Any, **changes: Any) -> None:
        if "metadata_offset" in changes:
            go_on.wait(WAIT_S)
            recorded.append(changes["metadata_offset"])
        real(*arguments, **changes)

    async with broker(tmp_path, session_s=0.3) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        monkeypatch.setattr(BrokerDirectories, "update_state", update_state)
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        async with partition.gate:
            for offset, why in ((10, "0.2 s"), (11, "the role before")):
                answer = await ask(call, with_topic(push(offset, offset - 1), leader_epoch=1))
                assert answer.error_code == KafkaStorageError.code
                assert "it has not done so in 0.2 s" in answer.error_message
                assert why in answer.topics[0].partitions[0].error_message
            assert recorded == []
            go_on.set()
        await given_up(call)
        answer = await ask(
            b.stub.LeaderAndIsr(), with_topic(push(11, 4, full=True), leader_epoch=2)
        )
        assert (answer.error_code, list(answer.topics)) == (0, [])
        assert recorded == [10, 11, 11]


async def test_a_push_that_no_disk_records_does_not_keep_leaders_from_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they lead may lie on another disk. Who has come back joins no ISR of a leader that has
    not heard of it, and nobody else is elected, as heartbeats arrive (I-88, I-89).
    """
    real, go_on = BrokerDirectories.update_state, threading.Event()

    def update_state(*arguments: Any, **changes: Any) -> None:
        go_on.wait(WAIT_S)
        real(*arguments, **changes)

    async with broker(tmp_path, session_s=1.5) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        monkeypatch.setattr(BrokerDirectories, "update_state", update_state)
        back = push(11, 10)
        back.update_metadata.live_brokers.add(broker_id=2, broker_epoch=8)
        await call.write(push(10, 9))
        await call.write(back)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S / 2):
                    while b.metadata.applied_offset < 11:  # noqa: ASYNC110 - a push is applied
                        await asyncio.sleep(0)
            assert b.replicas.eligibility.brokers.get(BrokerId(2)) == 8
        finally:
            go_on.set()


async def test_a_directory_is_not_let_go_while_a_push_is_recorded_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may take it from then on, and what is written late would take the place of
    what that one remembers (P-20, P-71).
    """
    update, close = BrokerDirectories.update_state, BrokerDirectories.close
    go_on, recorded, when_let_go = threading.Event(), list[int](), list[list[int]]()

    def update_state(self: BrokerDirectories, **changes: Any) -> None:
        go_on.wait(WAIT_S)
        update(self, **changes)
        recorded.append(changes["metadata_offset"])

    def let_go(self: BrokerDirectories) -> None:
        when_let_go.append(list(recorded))
        close(self)

    monkeypatch.setattr(BrokerDirectories, "update_state", update_state)
    monkeypatch.setattr(BrokerDirectories, "close", let_go)
    async with broker(tmp_path, session_s=0.3) as b:
        async with running(b.receiver.run()):
            answer = await ask(b.stub.LeaderAndIsr(), push(9, 4, full=True))
            assert "it goes on" in answer.error_message
        asyncio.get_running_loop().call_later(0.3, go_on.set)
    assert when_let_go == [[9]]


async def test_on_a_disk_that_hangs_all_are_late_at_once_and_none_is_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for nothing but the first of them would be named sessions later (I-94)."""
    begun_before = list[int]()
    many, begun = 3 * AT_ONCE, 0
    take, failed = Envelopes._take_role, Envelopes._failed

    async def counted(
        self: Envelopes, partition: Partition, state: PartitionState, say: Any
    ) -> None:
        nonlocal begun
        begun += 1
        await take(self, partition, state, say)

    def noted(self: Envelopes, state: PartitionState, error: WireError) -> FailedPartition:
        begun_before.append(begun)
        return failed(self, state, error)

    async with broker(tmp_path, session_s=4.5) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True), partitions=many))
        monkeypatch.setattr(Envelopes, "_take_role", counted)
        monkeypatch.setattr(Envelopes, "_failed", noted)
        applied = b.replicas.applied_partitions
        async with AsyncExitStack() as held:
            for partition in b.replicas.partitions.values():
                await held.enter_async_context(partition.gate)
            answer = await ask(call, with_topic(push(10, 9), leader_epoch=1, partitions=many))
            assert len(answer.topics[0].partitions) == many
            assert begun_before == [many] * many
            assert b.replicas.applied_partitions == applied, "nothing goes on"
        await given_up(call)
        async with asyncio.timeout(WAIT_S):
            while b.replicas.applied_partitions < applied + many:  # noqa: ASYNC110 - tasks end
                await asyncio.sleep(0)


async def test_who_comes_late_to_its_role_takes_no_answer_about_others_back(tmp_path: Path) -> None:
    """The controller elects around them by that answer alone (P-79, I-94)."""
    async with broker(tmp_path, session_s=0.6) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True), partitions=2))
        late, later = (b.replicas.partitions[TOPIC_ID, index] for index in (0, 1))
        async with later.gate:
            async with late.gate:
                later.gate.release()
                await ask(call, with_topic(push(10, 9), leader_epoch=1, partitions=2))
                await later.gate.acquire()
                pushed = with_topic(push(11, 10), leader_epoch=2, partitions=2)
                answer = asyncio.create_task(ask(call, pushed))
                async with asyncio.timeout(WAIT_S):
                    while later.role is not None:  # noqa: ASYNC110 - its new role has begun
                        await asyncio.sleep(0)
            failed = {p.partition_index: p for p in (await answer).topics[0].partitions}
        assert "the role before" in failed[0].error_message
        assert "0.4 s" in failed[1].error_message
        await given_up(call)


async def test_a_replica_that_goes_takes_no_role_any_more(tmp_path: Path) -> None:
    async with broker(tmp_path, session_s=0.3) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        async with partition.gate:
            await ask(call, with_topic(push(10, 9), leader_epoch=1))
            answer = asyncio.create_task(ask(call, push(11, 4, full=True)))
            async with asyncio.timeout(WAIT_S):
                while b.receiver.envelopes.late.why(partition.key):  # noqa: ASYNC110 - a task ends
                    await asyncio.sleep(0)
        assert (await answer).error_code == 0
        assert b.replicas.find(TOPIC_ID, 0) is None
        assert (partition.role, partition.leader_epoch) == (None, 0)
