"""Producer ids: blocks from the controller, epochs that are raised (KIP-360), refusals."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.member.producer_ids import EPOCH_MAX, ProducerIds
from strandline_broker.rpc.cluster.controller_link import ControllerLink
from strandline_broker.rpc.records.producer_ids import ProducerIdsRpc
from strandline_proto.errors import (
    InvalidRequest,
    NotController,
    UnknownServerError,
)
from strandline_proto.ids import (
    CHOSEN_PRODUCER_IDS,
    NO_PRODUCER_ID,
    BrokerEpoch,
    BrokerId,
    ProducerEpoch,
    ProducerId,
)
from strandline_proto.v1 import metadata_pb2
from strandline_runtime.real import real_runtime
from support.scripted_controller import scripted_controller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NO_EPOCH = ProducerEpoch(-1)


@asynccontextmanager
async def producer_ids(target: str, broker_epoch: int = 7) -> AsyncIterator[ProducerIds]:
    link = ControllerLink(real_runtime("test"), target)
    yield ProducerIds(link, BrokerId(1), lambda: BrokerEpoch(broker_epoch))
    await link.close()


async def new_id(ids: ProducerIds) -> int:
    producer_id, epoch = await ids.init(NO_PRODUCER_ID, NO_EPOCH, timeout_s=10)
    assert epoch == 0
    return producer_id


async def test_no_id_is_given_twice_and_blocks_are_used_up_in_order() -> None:
    async with scripted_controller() as controller, producer_ids(controller.target) as ids:
        assert [await new_id(ids) for _ in range(7)] == list(range(7))
        assert controller.allocations == 3


async def test_callers_at_the_same_time_share_blocks_without_sharing_ids() -> None:
    """I-59."""
    async with scripted_controller() as controller, producer_ids(controller.target) as ids:
        given = await asyncio.gather(*(new_id(ids) for _ in range(30)))
        assert sorted(given) == list(range(30))
        assert controller.allocations == 10


async def test_a_block_that_was_fetched_ahead_serves_while_no_controller_answers() -> None:
    async with scripted_controller() as controller:
        link = ControllerLink(real_runtime("test"), controller.target)
        ids = ProducerIds(link, BrokerId(1), lambda: BrokerEpoch(7))
        await ids.have_some()
        await link.close()
    assert await new_id(ids) == 0


async def test_a_known_producer_keeps_its_id_and_gets_the_next_epoch() -> None:
    async with scripted_controller() as controller, producer_ids(controller.target) as ids:
        assert await ids.init(ProducerId(41), ProducerEpoch(0), timeout_s=10) == (41, 1)
        assert await ids.init(ProducerId(41), ProducerEpoch(7), timeout_s=10) == (41, 8)
        assert controller.allocations == 0


async def test_a_producer_whose_epochs_are_used_up_gets_a_new_id() -> None:
    async with scripted_controller() as controller, producer_ids(controller.target) as ids:
        last = ProducerEpoch(EPOCH_MAX - 2)
        assert await ids.init(ProducerId(41), last, timeout_s=10) == (41, EPOCH_MAX - 1)
        for epoch in (EPOCH_MAX - 1, EPOCH_MAX):
            producer_id, fresh = await ids.init(ProducerId(41), ProducerEpoch(epoch), timeout_s=10)
            assert producer_id != 41
            assert fresh == 0


@pytest.mark.parametrize(("producer_id", "epoch"), [(-2, 0), (5, -1), (5, EPOCH_MAX + 1)])
async def test_an_impossible_id_or_epoch_is_refused(producer_id: int, epoch: int) -> None:
    async with scripted_controller() as controller, producer_ids(controller.target) as ids:
        with pytest.raises(InvalidRequest):
            await ids.init(ProducerId(producer_id), ProducerEpoch(epoch), timeout_s=10)


async def test_an_id_that_a_producer_chose_gets_no_epoch_from_a_broker() -> None:
    async with scripted_controller() as controller, producer_ids(controller.target) as ids:
        for chosen in (CHOSEN_PRODUCER_IDS.start, CHOSEN_PRODUCER_IDS.stop - 1):
            with pytest.raises(InvalidRequest, match="chooses its epochs as well"):
                await ids.init(ProducerId(chosen), ProducerEpoch(0), timeout_s=10)
        given = ProducerId(CHOSEN_PRODUCER_IDS.start - 1)
        assert await ids.init(given, ProducerEpoch(0), timeout_s=10) == (given, 1)


async def test_without_a_controller_the_answer_says_so() -> None:
    async with scripted_controller() as controller:
        target = controller.target
    async with producer_ids(target) as ids:
        with pytest.raises(NotController, match="no controller can be reached"):
            await new_id(ids)


async def test_before_registration_the_answer_is_to_retry() -> None:
    async with scripted_controller() as controller, producer_ids(controller.target, -1) as ids:
        with pytest.raises(NotController, match="not registered yet"):
            await new_id(ids)


async def test_a_producer_without_transactions_gets_an_id_by_grpc() -> None:
    async with scripted_controller() as controller, producer_ids(controller.target) as ids:
        rpc = ProducerIdsRpc(ids)
        plain = metadata_pb2.InitProducerIdRequest(producer_id=-1, producer_epoch=-1)
        answer = await rpc.InitProducerId(plain, None)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 0)


async def test_a_block_without_ids_is_refused() -> None:
    async with scripted_controller() as controller, producer_ids(controller.target) as ids:
        controller.ids_per_block = 0
        with pytest.raises(UnknownServerError, match="gave 0 producer ids"):
            await new_id(ids)
