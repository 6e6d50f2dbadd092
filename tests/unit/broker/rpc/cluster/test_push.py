"""The controller's push stream as a broker serves it: real gRPC, a real data directory, real
replicas.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.member.envelopes import AT_ONCE
from strandline_broker.hosts.member.replica_info import describe_replicas
from strandline_broker.hosts.replica.partition import Partition
from strandline_broker.rpc.cluster.push import LARGE_BYTES
from strandline_broker.rpc.cluster.push_codec import envelope_from_wire
from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_broker.storage.directory.directory import DataDirectory
from strandline_broker.storage.files.steps import side_by_side
from strandline_broker.storage.log.log import Log
from strandline_proto.errors import (
    KafkaStorageError,
    StaleBrokerEpoch,
    StaleControllerEpoch,
)
from strandline_proto.ids import BrokerId, TopicId
from strandline_proto.v1 import common_pb2, push_pb2
from strandline_runtime.real import real_runtime
from support.pushed_broker import MY_EPOCH, TOPIC_ID, ask, broker, given_up, push, with_topic
from support.scripted_controller import WAIT_S, running

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from strandline_broker.core.push_answer import PushAnswer
    from strandline_broker.core.push_envelope import Envelope
    from strandline_broker.hosts.member.push_streams import IncomingPushStream
    from strandline_broker.storage.files.steps import Steps


OTHER_ID = b"u" * 16


async def test_a_snapshot_is_applied_to_replicas_then_metadata_and_remembered(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as b, running(b.receiver.run()):
        answer = await ask(b.stub.LeaderAndIsr(), with_topic(push(9, 4, full=True)))
        assert (answer.error_code, answer.want_full) == (0, False)
        assert (answer.metadata_offset, answer.applied_metadata_offset) == (9, 9)
        assert (answer.store_id, answer.controller_epoch) == ("store", 1)
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        assert partition.leader is not None
        assert partition.max_message_bytes == 5000
        assert b.replicas.applied_partitions == 2, "made, and given its role (I-94)"
        assert b.metadata.view.partition(TopicId(TOPIC_ID), 0) is not None
        state = b.directory.state
        assert (state.store_id, state.controller_epoch, state.metadata_offset) == ("store", 1, 9)
    again = BrokerDirectories.open(
        real_runtime("x").fs, [str(tmp_path)], node_id=1, cluster_id=None, new_id=lambda: b"n" * 16
    )
    assert again.state.metadata_offset == 9
    again.close()


async def test_a_change_of_configuration_alone_reaches_the_replicas_without_a_new_role(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        leader = partition.leader
        change = push(10, 9)
        topic = change.update_metadata.topics.add(topic_name="orders", topic_id=TOPIC_ID)
        topic.configs.add(name="segment.bytes", value="6000")
        await ask(call, change)
        assert partition.leader is leader
        assert (partition.log.config.segment_bytes, partition.max_message_bytes) == (6000, 1048588)
        cached = b.metadata.view.topic_named("orders")
        assert cached is not None
        assert (cached.configs, list(cached.partitions)) == ({"segment.bytes": "6000"}, [0])


async def test_what_is_altered_for_brokers_counts_for_the_keys_that_a_topic_does_not_set(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        snapshot = with_topic(push(9, 4, full=True))
        snapshot.dynamic_configs.cluster.add(name="log.segment.bytes", value="7000")
        await ask(call, snapshot)
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        assert (partition.log.config.segment_bytes, partition.max_message_bytes) == (7000, 5000)
        altered = push(10, 9)
        altered.dynamic_configs.cluster.add(name="log.segment.bytes", value="7000")
        altered.dynamic_configs.broker.add(name="log.segment.bytes", value="8000")
        altered.dynamic_configs.broker.add(name="message.max.bytes", value="1")
        await ask(call, altered)
        assert (partition.log.config.segment_bytes, partition.max_message_bytes) == (8000, 5000)
        assert b.replicas.config.current.message_max_bytes == 1
        await ask(call, push(11, 10))
        assert b.metadata.view.dynamic_configs.broker["message.max.bytes"] == "1", "as before"
        undone = push(12, 11)
        undone.dynamic_configs.SetInParent()
        await ask(call, undone)
        assert (partition.log.config.segment_bytes, partition.max_message_bytes) == (1 << 30, 5000)


async def test_a_replica_whose_topics_configuration_is_not_known_yet_deletes_nothing(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as b, running(b.receiver.run()):
        await ask(b.stub.LeaderAndIsr(), with_topic(push(9, 4, full=True)))
    async with broker(tmp_path) as b:
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        config = partition.log.config
        assert (config.retention_ms, config.retention_bytes) == (-1, -1)
        assert config.cleanup_policy == ("delete",)
        async with running(b.receiver.run()):
            await ask(b.stub.LeaderAndIsr(), with_topic(push(9, 4, full=True)))
        assert partition.log.config.retention_ms == 604_800_000


async def test_increments_follow_each_other_and_a_gap_asks_for_everything(tmp_path: Path) -> None:
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        assert (await ask(call, push(2, 1))).want_full
        await ask(call, push(5, 4, full=True))
        assert (await ask(call, push(6, 5))).applied_metadata_offset == 6
        gap = await ask(call, push(9, 8))
        assert (gap.want_full, gap.applied_metadata_offset, gap.error_code) == (True, 6, 0)
        assert gap.metadata_offset == 9
        assert (await ask(call, push(9, 8, full=True))).applied_metadata_offset == 9
        # P-79: the snapshot that was asked for may be of the offset that is applied.
        same = await ask(call, push(9, 8, full=True))
        assert (same.want_full, same.error_code, same.applied_metadata_offset) == (False, 0, 9)


async def test_a_large_snapshot_is_decoded_beside_the_loop_and_applied_in_its_turn(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        large = push(5, 4, full=True)
        topic = large.update_metadata.topics.add(topic_name="large", topic_id=OTHER_ID)
        for index in range(1, LARGE_BYTES // 5):
            topic.partitions.add(index=index, leader=2, leader_epoch=1)
        assert large.ByteSize() > LARGE_BYTES
        await call.write(large)
        assert (await ask(call, push(6, 5))).applied_metadata_offset == 5
        async with asyncio.timeout(WAIT_S):
            second = await call.read()
        assert isinstance(second, push_pb2.LeaderAndIsrResponse)
        assert (second.applied_metadata_offset, second.want_full) == (6, False)
        assert b.metadata.view.partition(TopicId(OTHER_ID), LARGE_BYTES // 5 - 1) is not None


async def test_pushes_of_the_past_are_refused_and_change_nothing(tmp_path: Path) -> None:
    """I-31, I-32, P-17: a deposed controller, and a push to an earlier incarnation."""
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, push(5, 4, full=True, controller_epoch=3))
        old = await ask(call, with_topic(push(6, 5, controller_epoch=2)))
        assert (old.error_code, old.want_full) == (StaleControllerEpoch.code, False)
        other = await ask(call, with_topic(push(6, 5, controller_epoch=3, broker_epoch=6)))
        assert other.error_code == StaleBrokerEpoch.code
        assert b.metadata.applied_offset == 5
        assert b.replicas.find(TOPIC_ID, 0) is None


async def test_a_newer_stream_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    async with broker(tmp_path) as b, running(b.receiver.run()):
        old = b.stub.LeaderAndIsr()
        await ask(old, push(5, 4, full=True))
        new = b.stub.LeaderAndIsr()
        assert (await ask(new, push(6, 5))).applied_metadata_offset == 6
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await old.read()
        assert caught.value.code() is grpc.StatusCode.ABORTED


async def test_what_a_full_disk_kept_from_being_applied_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, full = DataDirectory.make_logs, True

    def make_logs(*arguments: Any) -> list[Any]:
        return [OSError(errno.ENOSPC, "No space left on device")] if full else real(*arguments)

    monkeypatch.setattr(DataDirectory, "make_logs", make_logs)
    monkeypatch.setattr("strandline_broker.hosts.member.push_streams.FULL_DISK_RETRY_S", 0.5)
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        answer = await ask(call, with_topic(push(9, 4, full=True)))
        assert [p.error_code for t in answer.topics for p in t.partitions] == [
            KafkaStorageError.code
        ]
        read = asyncio.create_task(call.read())
        await asyncio.wait([read], timeout=WAIT_S)
        assert read.done(), "the stream is not ended, and no push comes again"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read
        assert caught.value.code() is grpc.StatusCode.ABORTED
        full = False
        answer = await ask(b.stub.LeaderAndIsr(), with_topic(push(9, 4, full=True)))
        assert list(answer.topics) == []
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        assert partition.leader is not None


def nobody_leads(request: push_pb2.LeaderAndIsrRequest) -> push_pb2.LeaderAndIsrRequest:
    with_topic(request)
    partition = request.leader_and_isr[0].partitions[0]
    partition.leader = -1
    del partition.isr_with_epochs[:]
    return request


async def test_where_a_log_ends_is_told_once_the_push_can_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An election of balanced recovery waits for it (I-53)."""
    real, full = BrokerDirectories.update_state, True

    def update_state(*arguments: Any, **changes: Any) -> None:
        if full and "metadata_offset" in changes:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments, **changes)

    monkeypatch.setattr(BrokerDirectories, "update_state", update_state)
    monkeypatch.setattr("strandline_broker.hosts.member.push_streams.FULL_DISK_RETRY_S", 0.2)
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        answer = await ask(call, nobody_leads(push(9, 4, full=True)))
        assert (answer.error_code, list(answer.log_ends)) == (KafkaStorageError.code, [])
        await given_up(call)
        full = False
        answer = await ask(b.stub.LeaderAndIsr(), nobody_leads(push(9, 4, full=True)))
        (end,) = answer.log_ends
        assert (end.last_epoch, end.log_end_offset, end.high_watermark) == (-1, 0, 0)


async def test_a_role_that_could_not_be_taken_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failing = Log.assigning_epoch, True

    def assigning_epoch(*arguments: Any) -> Steps[None]:
        if failing:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        yield from real(*arguments)

    monkeypatch.setattr(Log, "assigning_epoch", assigning_epoch)
    monkeypatch.setattr("strandline_broker.hosts.member.push_streams.FULL_DISK_RETRY_S", 0.2)
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        made = await ask(call, with_topic(push(9, 4, full=True)))
        assert list(made.topics) == []  # its first epoch was assigned with the making of the log
        answer = await ask(call, with_topic(push(10, 9), leader_epoch=1))
        assert answer.topics[0].partitions[0].error_code == KafkaStorageError.code
        await given_up(call)
        failing = False
        answer = await ask(
            b.stub.LeaderAndIsr(), with_topic(push(10, 4, full=True), leader_epoch=2)
        )
        assert list(answer.topics) == []


async def test_the_roles_of_an_envelope_are_made_durable_together_and_leave_others_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, in_a_turn, turns = list[int](), dict[int, int](), 0

    def counted(works: Iterable[Steps[Any]]) -> list[Any]:
        group = list(works)
        groups.append(len(group))
        return side_by_side(group)

    stop_role = Partition.stop_role

    def stopped(partition: Partition, why: str) -> None:
        in_a_turn[turns] = in_a_turn.get(turns, 0) + 1
        stop_role(partition, why)

    async def turning() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    many = 4 * AT_ONCE
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True), partitions=many))
        with monkeypatch.context() as patched:
            patched.setattr("strandline_broker.hosts.disks.disk_lanes.side_by_side", counted)
            patched.setattr(Partition, "stop_role", stopped)
            async with running(turning()):
                answer = await ask(call, with_topic(push(10, 9), leader_epoch=1, partitions=many))
        assert list(answer.topics) == []
        assert {p.leader_epoch for p in b.replicas.partitions.values()} == {1}
        assert sum(groups) == many, "each has its epoch noted once"
        assert max(groups) > 1, "those that wait for a thread share the disk's time"
        assert sum(in_a_turn.values()) == many
        assert max(in_a_turn.values()) <= 2 * AT_ONCE, "others are served meanwhile"


async def test_a_stream_that_is_given_up_in_its_first_write_ends_with_a_status(
    tmp_path: Path,
) -> None:
    """Else the controller would wait for a session, or in an idle cluster for ever."""
    async with broker(tmp_path) as b, running(b.receiver.run()):
        apply = b.receiver.apply

        async def apply_and_give_up(
            stream: IncomingPushStream, envelope: Envelope
        ) -> PushAnswer | None:
            answer = await apply(stream, envelope)
            stream.replaced.set()
            return answer

        b.receiver.apply = apply_and_give_up  # type: ignore[method-assign]
        for _ in range(20):
            call = b.stub.LeaderAndIsr()
            await call.write(push(5, 4, full=True))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async with asyncio.timeout(WAIT_S):
                    _ = [answer async for answer in call]
            assert caught.value.code() is grpc.StatusCode.ABORTED


async def test_what_an_older_stream_sent_is_dropped_if_it_was_not_begun(tmp_path: Path) -> None:
    async with broker(tmp_path) as b:
        old = b.receiver.streams.open()
        waiting = asyncio.get_running_loop().create_future()

        async def submit_old() -> None:
            waiting.set_result(None)
            envelope = envelope_from_wire(push(5, 4, full=True))
            assert await b.receiver.apply(old, envelope) is None

        async with asyncio.TaskGroup() as group:
            group.create_task(submit_old())
            await waiting
            new = b.receiver.streams.open()
            async with running(b.receiver.run()):
                answer = await b.receiver.apply(new, envelope_from_wire(push(9, 8, full=True)))
        assert answer is not None
        assert b.metadata.applied_offset == 9


async def test_an_envelope_that_was_begun_is_finished_although_its_stream_breaks(
    tmp_path: Path,
) -> None:
    """P-38."""
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, push(5, 4, full=True))
        await call.write(with_topic(push(6, 5)))
        call.cancel()
        # Whether the push was begun or dropped, the broker is at one offset or the other, whole.
        new = b.stub.LeaderAndIsr()
        answer = await ask(new, push(50, 49))
        assert answer.want_full
        assert answer.applied_metadata_offset in (5, 6)
        hosted = b.replicas.find(TOPIC_ID, 0) is not None
        known = TOPIC_ID in b.metadata.view.topics_by_id
        assert hosted == (answer.applied_metadata_offset == 6) == known


async def test_pushes_wait_until_the_broker_is_ready_to_apply_them(tmp_path: Path) -> None:
    async with broker(tmp_path) as b:
        call = b.stub.LeaderAndIsr()
        await call.write(push(5, 4, full=True))
        assert b.metadata.applied_offset == -1
        async with running(b.receiver.run()), asyncio.timeout(WAIT_S):
            answer = await call.read()
        assert isinstance(answer, push_pb2.LeaderAndIsrResponse)
        assert answer.applied_metadata_offset == 5


async def test_a_partition_that_cannot_be_applied_is_reported_and_the_rest_is_applied(
    tmp_path: Path,
) -> None:
    """P-79, P-20: the directory once held the replica and lost it."""
    async with broker(tmp_path) as b, running(b.receiver.run()):
        b.directory.keep_hosted(frozenset({(TOPIC_ID, 0)}))
        answer = await ask(b.stub.LeaderAndIsr(), with_topic(push(9, 4, full=True)))
        assert answer.applied_metadata_offset == 9
        (failed,) = answer.topics[0].partitions
        assert answer.topics[0].topic_id == TOPIC_ID
        assert (failed.partition_index, failed.error_code) == (0, KafkaStorageError.code)
        assert "orders:0" in failed.error_message
        assert TOPIC_ID in b.metadata.view.topics_by_id


@pytest.mark.parametrize("leads", [True, False])
async def test_a_log_of_a_later_epoch_than_the_controllers_costs_its_partition_alone(
    tmp_path: Path, leads: bool
) -> None:
    """I-2: the controller is an old copy, or a checkpoint without a seal has rotted."""
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True), leader_epoch=1))
        partition = b.replicas.partitions[TOPIC_ID, 0]
        partition.log.assign_epoch(50)
        request = with_topic(push(10, 9), leader_epoch=2)
        if not leads:
            request.leader_and_isr[0].partitions[0].leader = -1
        answer = await ask(call, request)
        (failed,) = answer.topics[0].partitions
        assert failed.error_code == KafkaStorageError.code
        assert "holds leader epoch 50, and the controller knows of none above 2" in (
            failed.error_message
        )
        assert "move the directory away" in failed.error_message
        offline = b.replicas.offline_replicas()
        assert offline == {(TOPIC_ID, 0): ReplicaCondition.OUT_OF_SERVICE}
        (told,) = describe_replicas(b.replicas, b.metadata, (), now_ms=0)
        assert (told.role, "leader epoch 50" in str(told.error)) == ("offline", True)
        assert not b.receiver.envelopes.lacks_something, "asking again would change nothing"
        again = await ask(call, with_topic(push(11, 10), leader_epoch=60))
        assert again.topics[0].partitions[0].error_code == KafkaStorageError.code
        other = with_topic(push(12, 11), leader_epoch=1)
        other.leader_and_isr[0].topic_id = OTHER_ID
        other.leader_and_isr[0].topic_name = "others"
        assert not (await ask(call, other)).topics
        assert b.replicas.partitions[OTHER_ID, 0].leader is not None


async def test_a_decision_that_no_controller_makes_costs_its_partition_alone(
    tmp_path: Path,
) -> None:
    """I-3, I-22."""
    async with broker(tmp_path) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True), leader_epoch=1))
        request = with_topic(push(10, 9), leader_epoch=2)
        request.leader_and_isr[0].partitions[0].replicas[:] = [2]
        answer = await ask(call, request)
        (failed,) = answer.topics[0].partitions
        assert (failed.error_code, "not within" in failed.error_message) == (-1, True)
        stolen = with_topic(push(11, 10), leader_epoch=1)
        stolen.leader_and_isr[0].partitions[0].leader = 2
        stolen.leader_and_isr[0].partitions[0].partition_epoch = 5
        stolen.leader_and_isr[0].partitions[0].replicas[:] = [1, 2]
        stolen.leader_and_isr[0].partitions[0].isr_with_epochs.add(broker_id=2, broker_epoch=1)
        (failed,) = (await ask(call, stolen)).topics[0].partitions
        assert "was 1's" in failed.error_message
        assert not (await ask(call, with_topic(push(12, 11), leader_epoch=3))).topics
        assert b.replicas.partitions[TOPIC_ID, 0].leader_epoch == 3


async def test_a_broker_says_which_process_it_is(tmp_path: Path) -> None:
    """P-81."""
    async with broker(tmp_path) as b:
        identity = await b.stub.Identify(push_pb2.IdentifyRequest(), timeout=WAIT_S)
    assert (identity.cluster_id, identity.broker_id) == ("cluster", 1)
    assert identity.incarnation_id == "incarnation"


def test_every_field_of_a_push_reaches_the_envelope() -> None:
    request = push(9, 4, full=True, controller_epoch=2)
    with_topic(request, leader_epoch=3)
    request.leader_and_isr[0].partitions[0].leader_recovery_state = 1
    request.leader_and_isr[0].partitions[0].elr.append(2)
    request.update_metadata.topics[0].partitions[0].last_known_elr.append(2)
    stop = request.stop_replica.add(topic_id=b"s" * 16)
    stop.partitions.add(partition_index=4, leader_epoch=-2, delete_partition=True)
    request.update_metadata.deleted_topic_ids.append(b"d" * 16)
    request.update_metadata.removed_brokers.append(8)
    request.update_metadata.live_brokers.add(
        broker_id=2,
        broker_epoch=11,
        endpoints=[common_pb2.Endpoint(listener="L", host="h", port=1)],
        rack="r",
        fenced=True,
        in_controlled_shutdown=True,
    )
    envelope = envelope_from_wire(request)
    assert (envelope.full, envelope.metadata_offset, envelope.prev_metadata_offset) == (True, 9, 4)
    (state,) = envelope.leader_and_isr
    assert (state.topic, state.topic_id, state.leader_epoch) == ("orders", TOPIC_ID, 3)
    assert (state.recovering, state.elr, state.is_new, state.eff_min_insync) == (
        True,
        (2,),
        True,
        1,
    )
    assert state.unclean_epoch == -1
    assert [(m.broker_id, m.broker_epoch) for m in state.isr] == [(1, MY_EPOCH)]
    (stopped,) = envelope.stop_replicas
    assert (stopped.topic_id, stopped.partition, stopped.leader_epoch) == (b"s" * 16, 4, -2)
    assert stopped.delete
    assert envelope.deleted_topic_ids == (b"d" * 16,)
    assert envelope.removed_brokers == (8,)
    second = envelope.live_brokers[1]
    assert (second.broker_id, second.broker_epoch, second.rack) == (BrokerId(2), 11, "r")
    assert (second.fenced, second.in_controlled_shutdown) == (True, True)
    assert second.endpoints[0].port == 1
    (hosted,) = envelope.hosted_topics
    assert hosted.topic_id == TOPIC_ID
    assert hosted.configs == {"max.message.bytes": "5000"}
    assert envelope.topics[0].partitions[0].isr == (1,)
    assert envelope.topics[0].partitions[0].last_known_elr == (2,)
