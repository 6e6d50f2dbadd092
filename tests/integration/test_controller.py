"""A real controller process against brokers that speak its protocol and store nothing."""

from __future__ import annotations

import asyncio
import re
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proto import errors
from strandline_proto.ids import TopicId
from strandline_proto.v1 import (
    common_pb2,
    controller_pb2,
    elections_pb2,
    metadata_pb2,
    partitions_pb2,
    push_pb2,
    reassignment_pb2,
    truncations_pb2,
)
from support.controller_process import WAIT_S, ControllerProcess, PretendBroker
from support.replica_nodes import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_broker.core.push_envelope import PartitionMetadata
    from strandline_proto.v1.services_pb2_grpc import ControllerServiceAsyncStub

LONG_SESSION_MS = 60_000
MORE_THAN_LIVE = "9"
"""With fewer brokers than this the controller makes no topic for groups, at any time."""


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller that fences no broker because this process is slow, and makes no topic."""
    settings = {"offsets.topic.replication.factor": MORE_THAN_LIVE}
    yield from running(ControllerProcess(tmp_path, LONG_SESSION_MS, settings))


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller whose sessions end within a test."""
    settings = {"offsets.topic.replication.factor": MORE_THAN_LIVE}
    yield from running(ControllerProcess(tmp_path, 3000, settings))


def running(process: ControllerProcess) -> Iterator[ControllerProcess]:
    process.start()
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as exits:
        yield exits


class Living:
    """Brokers with their heartbeats, which a test may stop one by one."""

    def __init__(self, controller: ControllerProcess, stack: AsyncExitStack) -> None:
        self.controller = controller
        self.brokers: dict[int, PretendBroker] = {}
        self._stack = stack
        self._beating: dict[int, asyncio.Task[None]] = {}

    async def join(self, broker: PretendBroker) -> PretendBroker:
        """Listen, register, beat, and wait until unfenced."""
        stub = await self.stub()
        await broker.listen()
        self._stack.push_async_callback(broker.stop_listening)
        response = await broker.register(stub)
        assert response.error_code == 0, response
        self.brokers[broker.broker_id] = broker
        self.beat(broker, stub)
        await broker.until_unfenced()
        return broker

    async def three(self) -> list[PretendBroker]:
        return [await self.join(PretendBroker(self.controller, b)) for b in (1, 2, 3)]

    def beat(self, broker: PretendBroker, stub: ControllerServiceAsyncStub) -> None:
        task = asyncio.get_running_loop().create_task(broker.beat(stub))
        self._beating[broker.broker_id] = task
        self._stack.callback(task.cancel)

    async def stop_beating(self, broker: PretendBroker) -> None:
        """Ends its heartbeat stream, as the end of its process would."""
        task = self._beating.pop(broker.broker_id)
        task.cancel()
        await asyncio.wait([task])

    async def stub(self) -> ControllerServiceAsyncStub:
        return await self._stack.enter_async_context(self.controller.stub())

    async def create(self, name: str, partitions: int, factor: int) -> TopicId:
        stub = await self.stub()
        request = metadata_pb2.CreateTopicsRequest(
            topics=[
                metadata_pb2.NewTopic(name=name, partitions=partitions, replication_factor=factor)
            ]
        )
        (result,) = (await stub.CreateTopics(request)).topics
        assert result.error_code == 0, (result, self.controller.log())
        return TopicId(result.topic_id)

    async def partition(self, topic_id: TopicId, index: int, leader: int) -> PartitionMetadata:
        """As every live broker sees it, once all of them see that leader."""
        for broker in self.brokers.values():

            def led(broker: PretendBroker = broker) -> bool:
                known = broker.view.partition(topic_id, index)
                return known is not None and known.leader == leader

            await broker.until(led)
        seen = next(iter(self.brokers.values())).view.partition(topic_id, index)
        assert seen is not None
        return seen


async def test_a_push_stream_is_a_snapshot_then_every_batch_in_order(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one, two, three = await living.three()
    topic = await living.create("flights", 3, 3)
    await living.partition(topic, 0, leader=1)
    for broker in (one, two, three):
        batches = [envelope for stream in broker.streams for envelope in follow_on(stream)]
        # The controller makes the groups' topic too, at a time of its own.
        roles = [state for envelope in batches for state in envelope.leader_and_isr]
        (created,) = [state for state in roles if state.topic_id == topic]
        assert [p.leader for p in created.partitions] == [1, 2, 3]
        assert all(p.is_new and p.eff_min_insync_replicas == 2 for p in created.partitions)
        members = {m.broker_id: m.broker_epoch for m in created.partitions[0].isr_with_epochs}
        assert members == {b.broker_id: b.epoch for b in living.brokers.values()}
    stub = await living.stub()
    request = metadata_pb2.DeleteTopicsRequest(topics=[metadata_pb2.TopicRef(name="flights")])
    (deleted,) = (await stub.DeleteTopics(request)).topics
    assert (deleted.error_code, deleted.topic_id) == (0, topic)
    await two.until(lambda: topic not in two.view.topics_by_id)
    stopped = [each for envelope in follow_on(two.streams[-1]) for each in envelope.stop_replica]
    assert [each.topic_id for each in stopped] == [topic]
    assert [
        (p.partition_index, p.leader_epoch, p.delete_partition) for p in stopped[0].partitions
    ] == [(index, -2, True) for index in range(3)]


def follow_on(stream: list[push_pb2.LeaderAndIsrRequest]) -> list[push_pb2.LeaderAndIsrRequest]:
    """The envelopes after the snapshot: each continues where the one before it ends."""
    snapshot, *later = stream
    assert snapshot.full
    assert not any(envelope.full for envelope in later)
    ends = [envelope.metadata_offset for envelope in stream]
    assert [envelope.prev_metadata_offset for envelope in later] == ends[:-1]
    return later


async def test_a_broker_whose_process_is_gone_is_fenced_long_before_its_session_ends(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one, _, _ = await living.three()
    topic = await living.create("flights", 1, 3)
    await living.partition(topic, 0, leader=1)
    await one.stop_listening()
    await living.stop_beating(one)
    del living.brokers[1]
    seen = await living.partition(topic, 0, leader=2)
    assert (seen.leader_epoch, seen.isr, seen.offline_replicas) == (1, (2, 3), (1,))


async def test_another_process_under_the_address_proves_the_old_one_dead(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one, _, _ = await living.three()
    topic = await living.create("flights", 1, 3)
    one.incarnation_id = "the next one, not registered yet"
    await living.stop_beating(one)
    del living.brokers[1]
    await living.partition(topic, 0, leader=2)


async def test_a_broken_stream_alone_fences_nobody_and_silence_does(
    impatient: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(impatient, stack)
    one, _, _ = await living.three()
    topic = await living.create("flights", 1, 3)
    stub = await living.stub()
    await living.stop_beating(one)
    living.beat(one, stub)
    one.answered = None
    await one.until_unfenced()
    assert (await living.partition(topic, 0, leader=1)).leader_epoch == 0
    await living.stop_beating(one)
    del living.brokers[1]
    assert (await living.partition(topic, 0, leader=2)).leader_epoch == 1
    await eventually(lambda: "its session ended" in impatient.log(), "it is logged")
    assert "its process is gone" not in impatient.log()


async def propose_isr(
    living: Living, leader: PretendBroker, topic: TopicId, isr: list[PretendBroker]
) -> None:
    """AlterPartition of partition 0, which must succeed."""
    known = leader.view.partition(topic, 0)
    assert known is not None
    request = controller_pb2.AlterPartitionRequest(
        broker_id=leader.broker_id, broker_epoch=leader.epoch
    )
    request.topics.add(topic_id=topic).partitions.add(
        partition_index=0,
        leader_epoch=known.leader_epoch,
        partition_epoch=known.partition_epoch,
        new_isr_with_epochs=[
            common_pb2.BrokerAndEpoch(broker_id=b.broker_id, broker_epoch=b.epoch) for b in isr
        ],
    )
    (topic_result,) = (await (await living.stub()).AlterPartition(request)).topics
    (result,) = topic_result.partitions
    assert result.error_code == 0, result
    assert result.partition_epoch == known.partition_epoch + 1
    assert result.eff_min_insync_replicas == 2


async def kill_and_compare(living: Living, one: PretendBroker) -> None:
    """SIGKILL and restart: the next snapshot says what the last push said."""
    before = await living.controller.describe(await living.stub())
    offset = before.controller.metadata_offset
    await one.until(lambda: one.view.metadata_offset == offset)
    told = one.view
    living.controller.kill()
    living.controller.start()
    await one.until(lambda: one.view.metadata_offset > offset)
    assert one.streams[-1][0].full
    assert one.view.controller_epoch == told.controller_epoch + 1
    assert one.view.topics_by_id == told.topics_by_id
    assert one.view.brokers == told.brokers


async def test_killing_the_controller_after_any_decision_loses_none_of_it(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one = await living.join(PretendBroker(controller, 1))
    two = await living.join(PretendBroker(controller, 2))
    topic = await living.create("flights", 2, 2)
    await kill_and_compare(living, one)
    await propose_isr(living, one, topic, [one])
    await kill_and_compare(living, one)
    await propose_isr(living, one, topic, [one, two])
    await kill_and_compare(living, one)
    await living.join(PretendBroker(controller, 3))
    blocks = []
    for _ in range(2):
        stub = await living.stub()
        request = controller_pb2.AllocateProducerIdsRequest(broker_id=1, broker_epoch=one.epoch)
        blocks.append((await stub.AllocateProducerIds(request)).producer_id_start)
        await kill_and_compare(living, one)
    assert blocks == [0, 1000]
    deletion = metadata_pb2.DeleteTopicsRequest(topics=[metadata_pb2.TopicRef(topic_id=topic)])
    assert (await (await living.stub()).DeleteTopics(deletion)).topics[0].error_code == 0
    await kill_and_compare(living, one)
    assert not one.view.topics_by_id


async def test_a_broker_that_died_while_the_controller_was_down_is_fenced_after_a_session(
    impatient: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(impatient, stack)
    one, two, _ = await living.three()
    topic = await living.create("flights", 1, 3)
    await living.partition(topic, 0, leader=1)
    impatient.kill()
    await one.stop_listening()
    await living.stop_beating(one)
    del living.brokers[1]
    impatient.start()
    await two.until(lambda: two.view.controller_epoch == 2)
    assert two.view.eligible.keys() == {1, 2, 3}, "everybody has a fresh session"
    await living.partition(topic, 0, leader=2)
    assert two.view.eligible.keys() == {2, 3}


async def test_a_second_process_under_a_living_brokers_id_is_refused(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one = await living.join(PretendBroker(controller, 1))
    stub = await living.stub()
    other = PretendBroker(controller, 1)
    other.directory_id = "elsewhere"
    await other.listen()
    stack.push_async_callback(other.stop_listening)
    response = await other.register(stub)
    assert response.error_code == errors.DuplicateBrokerRegistration.code
    assert "node.id" in response.error_message
    assert (await one.register(stub)).broker_epoch == one.epoch, "its own retry"
    await one.stop_listening()
    await living.stop_beating(one)
    async with asyncio.timeout(WAIT_S):
        while (response := await other.register(stub)).error_code != 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert response.broker_epoch > one.epoch


async def test_a_controlled_shutdown_is_granted_when_all_live_brokers_know(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one, _, _ = await living.three()
    topic = await living.create("flights", 1, 3)
    one.want_shut_down = True
    await one.until(lambda: one.answered is not None and one.answered.should_shut_down)
    for broker in living.brokers.values():
        known = broker.view.partition(topic, 0)
        assert known is not None
        assert known.leader == 2, "granted before everybody knew"


async def test_a_broker_that_misses_something_gets_everything(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one = await living.join(PretendBroker(controller, 1))
    one.ask_for_full = 1
    topic = await living.create("flights", 1, 1)
    await living.partition(topic, 0, leader=1)
    # The one that is missed may be from before the topic, which then comes on its own.
    ((at_first, *later),) = [[envelope.full for envelope in stream] for stream in one.streams]
    assert at_first
    assert later.count(True) == 1
    assert later.index(True) > 0, "what was missed"


def alteration(key: str, value: str) -> metadata_pb2.IncrementalAlterConfigsRequest:
    return metadata_pb2.IncrementalAlterConfigsRequest(
        resources=[
            metadata_pb2.AlterConfigResource(
                type=4, configs=[metadata_pb2.AlterConfigEntry(name=key, value=value)]
            )
        ]
    )


async def test_an_altered_configuration_is_answered_when_all_live_brokers_work_by_it(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one, two, three = await living.three()
    stub = await living.stub()
    for broker in (one, two, three):
        broker.may_apply.clear()
    received = len(three.received)
    waiting = stub.IncrementalAlterConfigs(alteration("log.roll.ms", "5"), timeout=WAIT_S)
    asking = asyncio.ensure_future(waiting)
    await three.until(lambda: len(three.received) > received)
    assert not asking.done()
    for broker in (one, two, three):
        broker.may_apply.set()
    answer = await asking
    assert not answer.pending_brokers
    for broker in (one, two, three):
        assert broker.view.dynamic_configs.cluster == {"log.roll.ms": "5"}
    two.may_apply.clear()
    late = await stub.IncrementalAlterConfigs(alteration("log.roll.ms", "6"), timeout=WAIT_S)
    assert list(late.pending_brokers) == [2], "it is said which broker does not know yet"
    two.may_apply.set()
    await two.until(lambda: two.view.dynamic_configs.cluster == {"log.roll.ms": "6"})


async def test_an_answer_names_the_offset_that_holds_its_result(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one, _, _ = await living.three()
    stub = await living.stub()
    offsets: list[int] = []

    async def applied(answer: Any) -> MetadataView:
        """The view of broker 1 at the answer's offset, which is the last one of the log."""
        assert answer.error_code == 0
        offsets.append(answer.metadata_offset)
        await one.until(lambda: one.view.metadata_offset >= answer.metadata_offset)
        assert one.view.metadata_offset == answer.metadata_offset
        return one.view

    topic = metadata_pb2.NewTopic(name="t", partitions=-1, replication_factor=-1)
    topic.assignments.add(partition=0, broker_ids=[1, 2])
    made = await applied(await stub.CreateTopics(metadata_pb2.CreateTopicsRequest(topics=[topic])))
    assert "t" in made.ids_by_name
    more = partitions_pb2.NewPartitions(name="t", count=3)
    request = partitions_pb2.CreatePartitionsRequest(topics=[more])
    found = (await applied(await stub.CreatePartitions(request))).topic_named("t")
    assert found is not None
    assert len(found.partitions) == 3
    view = await applied(await stub.IncrementalAlterConfigs(alteration("log.roll.ms", "5")))
    assert view.dynamic_configs.cluster == {"log.roll.ms": "5"}
    chosen = elections_pb2.ElectLeadersTopic(
        name="t", partitions=[elections_pb2.ElectLeadersPartition(partition=0, leader=2)]
    )
    wish = elections_pb2.ElectLeadersRequest(election_type=100, topics=[chosen])
    found = (await applied(await stub.ElectLeaders(wish))).topic_named("t")
    assert found is not None
    assert found.partitions[0].leader == 2
    target = reassignment_pb2.ReassignTarget(replicas=[2, 3])
    move = reassignment_pb2.ReassignTopic(
        name="t", partitions=[reassignment_pb2.ReassignPartition(partition_index=0, target=target)]
    )
    moving = reassignment_pb2.AlterPartitionReassignmentsRequest(topics=[move])
    found = (await applied(await stub.AlterPartitionReassignments(moving))).topic_named("t")
    assert found is not None
    assert set(found.partitions[0].replicas) == {1, 2, 3}
    gone = metadata_pb2.DeleteTopicsRequest(topics=[metadata_pb2.TopicRef(name="t")])
    assert "t" not in (await applied(await stub.DeleteTopics(gone))).ids_by_name
    assert offsets == sorted(set(offsets)), "each decision has a later offset"


async def test_what_is_altered_survives_the_death_of_the_controller(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one = await living.join(PretendBroker(controller, 1))
    stub = await living.stub()
    request = alteration("min.insync.replicas", "1")
    request.resources.add(type=4, name="1").configs.add(name="log.roll.ms", value="5")
    request.resources.add(type=4, name="1").configs.add(name="log.roll.ms", value="6")
    request.resources.add(type=4, name="9").configs.add(name="log.roll.ms", value="6")
    answer = await stub.IncrementalAlterConfigs(request, timeout=WAIT_S)
    assert [r.error_code for r in answer.results] == [
        0,
        errors.InvalidRequest.code,
        errors.InvalidRequest.code,
        errors.BrokerIdNotRegistered.code,
    ]
    many = alteration("log.roll.ms", "8")
    for i in range(10_000):
        many.resources[0].configs.add(name=str(i))
    assert (await stub.IncrementalAlterConfigs(many)).error_code == errors.InvalidRequest.code
    request.resources[1].configs[0].value = "7"
    del request.resources[2:]
    await stub.IncrementalAlterConfigs(request, timeout=WAIT_S)
    controller.kill()
    controller.start()
    await one.until(lambda: one.view.controller_epoch == 2)
    assert one.streams[-1][0].full
    assert one.view.dynamic_configs.broker == {"log.roll.ms": "7"}
    assert one.view.dynamic_configs.cluster == {"min.insync.replicas": "1"}


async def test_a_leader_that_cannot_apply_its_election_is_elected_around(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one, _, _ = await living.three()
    topic = await living.create("first", 1, 3)
    await living.partition(topic, 0, leader=1)
    one.failing = [(topic, 0, errors.KafkaStorageError.code)]
    await living.create("second", 1, 3)
    seen = await living.partition(topic, 0, leader=2)
    assert seen.isr == (2, 3)


async def test_a_leader_that_leaves_its_election_unapplied_for_a_session_is_fenced(
    tmp_path: Path, stack: AsyncExitStack
) -> None:
    """I-94: its heartbeats arrive all the time."""
    controller = ControllerProcess(tmp_path, session_ms=1500)
    stack.callback(controller.kill)
    controller.start()
    living = Living(controller, stack)
    one, two, three = await living.three()
    one.may_apply.clear()
    topic = await living.create("t", 1, 3)

    def led_by_two(broker: PretendBroker) -> bool:
        known = broker.view.partition(topic, 0)
        return known is not None and known.leader == 2

    for broker in (two, three):
        await broker.until(lambda broker=broker: led_by_two(broker))  # type: ignore[misc]
    why = "it has not applied its election for a session"
    await eventually(lambda: why in controller.log(), "it is logged")
    one.may_apply.set()
    await one.until_unfenced()


async def test_a_stalled_controller_fences_nobody_for_its_own_silence(
    impatient: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(impatient, stack)
    one, _, _ = await living.three()
    topic = await living.create("flights", 1, 3)
    await living.partition(topic, 0, leader=1)
    impatient.send(signal.SIGSTOP)
    await asyncio.sleep(1.3 * impatient.session_ms / 1000)
    impatient.send(signal.SIGCONT)
    one.answered = None
    await one.until_unfenced()
    await living.create("after", 1, 3)
    assert (await living.partition(topic, 0, leader=1)).leader_epoch == 0
    assert "broker fenced" not in impatient.log()


async def test_a_controller_whose_log_lacks_what_a_broker_remembers_refuses_to_run(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    await living.join(PretendBroker(controller, 1))
    stub = await living.stub()
    described = await controller.describe(stub)
    two = PretendBroker(controller, 2)
    await two.listen()
    stack.push_async_callback(two.stop_listening)
    registering = asyncio.get_running_loop().create_task(
        two.register(
            stub,
            store_id=described.controller.store_id,
            controller_epoch=1,
            metadata_offset=described.controller.metadata_offset + 1,
        )
    )
    stack.callback(registering.cancel)
    assert await controller.exit_status() != 0
    assert "older copy" in controller.log()
    await asyncio.wait([registering])
    assert registering.exception() is not None


async def test_a_second_controller_on_the_same_directory_is_refused(
    controller: ControllerProcess, stack: AsyncExitStack, tmp_path: Path
) -> None:
    await stack.enter_async_context(controller.stub())
    (tmp_path / "second").mkdir()
    other = ControllerProcess(
        tmp_path / "second", settings={"log.dirs": str(tmp_path / "controller")}
    )
    stack.callback(other.kill)
    other.start()
    assert await other.exit_status() == 1
    log = other.log()
    assert log.splitlines()[-1].startswith("error: ")
    (pid,) = set(re.findall(r"serving .* pid=(\d+)", controller.log()))
    assert f"locked by another running process (pid {pid})" in log
    assert "Traceback" not in log


async def test_sigterm_ends_the_controller_at_once_and_cleanly(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    await living.three()
    assert await asyncio.to_thread(controller.terminate) == 0
    assert "stopped" in controller.log()


async def test_what_a_replica_has_refused_to_cut_is_told_and_takes_it_out_of_the_isr(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    living = Living(controller, stack)
    one, two, _ = await living.three()
    topic = await living.create("flights", 1, 3)
    await living.partition(topic, 0, leader=1)
    two.offline = [
        controller_pb2.OfflineReplica(
            topic_id=topic, condition=common_pb2.REPLICA_CONDITION_TRUNCATION_REFUSED
        )
    ]
    refused = truncations_pb2.RefusedTruncation(topic_id=topic, leader_id=1, offset=7)
    two.refused = [refused]

    def has_left() -> bool:
        known = one.view.partition(topic, 0)
        assert known is not None
        return 2 not in known.isr and known.offline_replicas == (2,)

    await one.until(has_left)
    described = await (await living.stub()).DescribeCluster(metadata_pb2.DescribeClusterRequest())
    assert {b.id: list(b.refused_truncations) for b in described.brokers} == {
        1: [],
        2: [refused],
        3: [],
    }


async def test_a_heartbeat_that_comes_late_over_a_stream_given_up_takes_nothing_back(
    controller: ControllerProcess, stack: AsyncExitStack
) -> None:
    """I-15, I-100: it was sent before the damage was found, and would bring the replica back."""
    living = Living(controller, stack)
    one, two, _ = await living.three()
    topic = await living.create("flights", 1, 3)
    await living.partition(topic, 0, leader=1)
    await living.stop_beating(two)
    old, new = [(await living.stub()).BrokerHeartbeat() for _ in range(2)]
    await old.write(two.heartbeat())
    assert isinstance(await old.read(), controller_pb2.BrokerHeartbeatResponse)
    sound = two.heartbeat()  # on its way, while its sender gives the stream up
    two.offline = [
        controller_pb2.OfflineReplica(
            topic_id=topic, condition=common_pb2.REPLICA_CONDITION_DAMAGED
        )
    ]
    await new.write(two.heartbeat())
    answer = await new.read()
    assert isinstance(answer, controller_pb2.BrokerHeartbeatResponse)
    assert answer.error_code == 0
    await old.write(sound)
    late = await old.read()
    assert isinstance(late, controller_pb2.BrokerHeartbeatResponse)
    assert late.error_code == errors.InvalidRequest.code
    marker = await living.create("later", 1, 1)  # what was decided before it has been pushed
    await one.until(lambda: one.view.topic(marker) is not None)
    known = one.view.partition(topic, 0)
    assert known is not None
    assert known.offline_replicas == (2,)
    assert 2 not in known.isr
    for stream in (old, new):
        stream.cancel()
