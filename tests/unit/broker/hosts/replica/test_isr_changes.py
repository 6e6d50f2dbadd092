"""ISR proposals on their way to the controller and back, over real gRPC."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.isr_proposal import ProposeIsr
from strandline_broker.core.replication.partition_state import IsrAnswer, IsrMember
from strandline_broker.hosts.replica.isr_changes import IsrChanges, possible
from strandline_broker.rpc.cluster.controller_link import ControllerLink
from strandline_proto.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
    UnknownServerError,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from strandline_proto.v1 import controller_pb2
from strandline_runtime.real import real_runtime
from support.partition_states import A, B, member, partition_state
from support.scripted_controller import WAIT_S, ScriptedController, running, scripted_controller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOPIC = TopicId(b"t" * 16)


def proposal(request_id: int, *members: int) -> ProposeIsr:
    isr = tuple(IsrMember(BrokerId(m), BrokerEpoch(10 + m)) for m in members)
    return ProposeIsr(request_id, isr, LeaderEpoch(4), PartitionEpoch(9))


class Answers:
    """Whoever proposes: remembers what came back, in order."""

    def __init__(self) -> None:
        self.got: list[tuple[int, IsrAnswer | WireError]] = []
        self._news = asyncio.Event()

    def __call__(self, request_id: int, outcome: IsrAnswer | WireError) -> None:
        self.got.append((request_id, outcome))
        self._news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.got) < count:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def isr_changes(target: str, broker_epoch: int = 7) -> AsyncIterator[IsrChanges]:
    runtime = real_runtime("test")
    link = ControllerLink(runtime, target)
    changes = IsrChanges(runtime, link, BrokerId(1), lambda: BrokerEpoch(broker_epoch))
    async with running(changes.run()):
        yield changes
    await link.close()


def accept_all(
    request: controller_pb2.AlterPartitionRequest,
) -> controller_pb2.AlterPartitionResponse:
    response = controller_pb2.AlterPartitionResponse()
    for topic in request.topics:
        result = response.topics.add(topic_id=topic.topic_id)
        for p in topic.partitions:
            result.partitions.add(
                partition_index=p.partition_index,
                leader_id=request.broker_id,
                leader_epoch=p.leader_epoch,
                isr_with_epochs=p.new_isr_with_epochs,
                partition_epoch=p.partition_epoch + 1,
                eff_min_insync_replicas=2,
                elr=[3],
            )
    return response


async def test_a_proposal_reaches_the_controller_whole_and_its_answer_comes_back() -> None:
    async with scripted_controller() as controller, isr_changes(controller.target) as changes:
        controller.on_alteration = accept_all
        answers = Answers()
        changes.submit(TOPIC, 5, proposal(77, 1, 2), answers)
        await answers.until(1)
    (request,) = controller.alterations
    assert (request.broker_id, request.broker_epoch) == (1, 7)
    (partition,) = request.topics[0].partitions
    assert (partition.partition_index, partition.leader_epoch) == (5, 4)
    assert partition.partition_epoch == 9
    assert [(m.broker_id, m.broker_epoch) for m in partition.new_isr_with_epochs] == [
        (1, 11),
        (2, 12),
    ]
    (request_id, answer) = answers.got[0]
    assert request_id == 77
    assert answer == IsrAnswer(
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(4),
        isr=(
            IsrMember(BrokerId(1), BrokerEpoch(11)),
            IsrMember(BrokerId(2), BrokerEpoch(12)),
        ),
        partition_epoch=PartitionEpoch(10),
        eff_min_insync=2,
        elr=(BrokerId(3),),
    )


async def test_what_is_submitted_while_a_request_is_under_way_goes_into_the_next_one() -> None:
    async with scripted_controller() as controller, isr_changes(controller.target) as changes:
        controller.on_alteration = accept_all
        controller.alterations_go_on.clear()
        answers = Answers()
        changes.submit(TOPIC, 0, proposal(1, 1), answers)
        await controller.until(lambda: len(controller.alterations) == 1)
        for partition in (1, 2, 3):
            changes.submit(TOPIC, partition, proposal(10 + partition, 1), answers)
        controller.alterations_go_on.set()
        await answers.until(4)
    sizes = [sum(len(t.partitions) for t in r.topics) for r in controller.alterations]
    assert sizes == [1, 3]
    assert [request_id for request_id, _ in answers.got] == [1, 11, 12, 13]


async def refused(controller: ScriptedController, changes: IsrChanges) -> WireError:
    answers = Answers()
    changes.submit(TOPIC, 0, proposal(1, 1, 2), answers)
    await answers.until(1)
    outcome = answers.got[0][1]
    assert isinstance(outcome, WireError)
    return outcome


@pytest.mark.parametrize("kind", [FencedLeaderEpoch, IneligibleReplica])
async def test_a_refusal_of_one_partition_is_given_to_its_proposer_as_it_is(
    kind: type[WireError],
) -> None:
    def refuse(_: controller_pb2.AlterPartitionRequest) -> controller_pb2.AlterPartitionResponse:
        response = controller_pb2.AlterPartitionResponse()
        response.topics.add(topic_id=TOPIC).partitions.add(partition_index=0, error_code=kind.code)
        return response

    async with scripted_controller() as controller, isr_changes(controller.target) as changes:
        controller.on_alteration = refuse
        assert type(await refused(controller, changes)) is kind


async def test_a_refusal_of_the_whole_request_is_given_to_every_proposer() -> None:
    async with scripted_controller() as controller, isr_changes(controller.target) as changes:
        controller.on_alteration = lambda _: controller_pb2.AlterPartitionResponse(
            error_code=StaleBrokerEpoch.code, error_message="gone"
        )
        answers = Answers()
        changes.submit(TOPIC, 0, proposal(1, 1), answers)
        changes.submit(TOPIC, 1, proposal(2, 1), answers)
        await answers.until(2)
    assert [type(outcome) for _, outcome in answers.got] == [StaleBrokerEpoch] * 2


async def test_a_partition_that_the_answer_leaves_out_has_an_unknown_outcome() -> None:
    """P-6: only a definite refusal may be taken back; silence is not one."""
    async with scripted_controller() as controller, isr_changes(controller.target) as changes:
        assert type(await refused(controller, changes)) is UnknownServerError


async def test_a_controller_that_is_gone_leaves_the_outcome_unknown() -> None:
    async with scripted_controller() as controller:
        target = controller.target
    async with isr_changes(target) as changes:
        assert type(await refused(controller, changes)) is NotController


async def test_a_newer_proposal_of_a_partition_takes_the_place_of_one_that_still_waits() -> None:
    async with scripted_controller() as controller, isr_changes(controller.target) as changes:
        controller.on_alteration = accept_all
        controller.alterations_go_on.clear()
        first, old, new = Answers(), Answers(), Answers()
        changes.submit(TOPIC, 9, proposal(1, 1), first)
        await controller.until(lambda: len(controller.alterations) == 1)
        changes.submit(TOPIC, 0, proposal(2, 1), old)
        changes.submit(TOPIC, 0, proposal(3, 1, 2), new)
        assert old.got == []  # its proposer may be in the middle of something
        controller.alterations_go_on.set()
        await new.until(1)
        await old.until(1)
    assert [(i, type(o)) for i, o in old.got] == [(2, RequestTimedOut)]
    assert [i for i, _ in new.got] == [3]


async def test_nothing_is_sent_before_the_broker_is_registered() -> None:
    epoch = [-1]
    runtime = real_runtime("test")
    async with scripted_controller() as controller:
        controller.on_alteration = accept_all
        link = ControllerLink(runtime, controller.target)
        changes = IsrChanges(runtime, link, BrokerId(1), lambda: BrokerEpoch(epoch[0]))
        answers = Answers()
        async with running(changes.run()):
            changes.submit(TOPIC, 0, proposal(1, 1), answers)
            epoch[0] = 8
            await answers.until(1)
        await link.close()
    assert [r.broker_epoch for r in controller.alterations] == [8]


def test_an_answer_that_no_controller_gives_leaves_the_outcome_unknown() -> None:
    """I-22: the ISR of a leader has the leader, and replicas alone."""
    state = partition_state(A, B)
    answer = IsrAnswer(A, state.leader_epoch, (member(A),), PartitionEpoch(1), 2)
    assert possible(answer, state) is answer
    for isr in ((member(B),), (member(A), member(BrokerId(9), 1))):
        refused = possible(replace(answer, isr=isr), state)
        assert isinstance(refused, UnknownServerError)
    unknown = RequestTimedOut("late")
    assert possible(unknown, state) is unknown
