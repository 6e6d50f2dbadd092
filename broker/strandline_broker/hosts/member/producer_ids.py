"""Ids and epochs for idempotent producers (InitProducerId).

Ids come from blocks. The controller records a block as allocated before it answers, so no id is
ever assigned twice, over restarts of brokers and controller alike (I-59). The rest of a block is
never used after this process ends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import grpc

from strandline_proto.errors import InvalidRequest, NotController, UnknownServerError, WireError
from strandline_proto.ids import (
    CHOSEN_PRODUCER_IDS,
    NO_BROKER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.common.controller_calls import ControllerCalls
    from strandline_proto.ids import BrokerEpoch, BrokerId

EPOCH_MAX: Final = 2**15 - 1
"""The batch header has 16 signed bits for a producer epoch."""
ALLOCATION_TIMEOUT_S: Final = 5.0


class ProducerIds:
    def __init__(
        self,
        controller: ControllerCalls,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._allocating = asyncio.Lock()

    async def init(
        self, producer_id: ProducerId, epoch: ProducerEpoch, *, timeout_s: float
    ) -> tuple[ProducerId, ProducerEpoch]:
        """A new id with epoch 0, or the given id with its epoch raised by one (KIP-360).

        A raised epoch lets a producer number its batches from 0 again while brokers refuse batches
        of the old epoch. When the epochs of an id are used up, the producer gets a new id. Raises
        WireError.
        """
        if producer_id == NO_PRODUCER_ID:
            return await self._new(timeout_s), ProducerEpoch(0)
        if producer_id < 0 or not 0 <= epoch <= EPOCH_MAX:
            raise InvalidRequest(
                f"producer id {producer_id} with epoch {epoch} is neither a new producer (-1) nor "
                f"one with an epoch from 0 to {EPOCH_MAX}"
            )
        if producer_id in CHOSEN_PRODUCER_IDS:
            raise InvalidRequest(
                f"producer id {producer_id} was not given out: who chooses an id from "
                f"{CHOSEN_PRODUCER_IDS.start} on chooses its epochs as well"
            )
        if epoch >= EPOCH_MAX - 1:
            return await self._new(timeout_s), ProducerEpoch(0)
        return producer_id, ProducerEpoch(epoch + 1)

    def take(self) -> ProducerId | None:
        """Returns a new id; None if the block is used up."""
        if self._next == self._end:
            return None
        given = ProducerId(self._next)
        self._next += 1
        return given

    async def until_some(self, timeout_s: float) -> None:
        """Gets a block if the present one is used up. Raises WireError."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._next == self._end:
                    async with self._allocating:
                        # The lock's previous holder may have fetched a block that is not used up.
                        if self._next == self._end:
                            await self._allocate()
        except TimeoutError:
            raise NotController(
                "no block of producer ids came from the controller at "
                f"{self._controller.target} within {timeout_s:g} s; retry"
            ) from None

    async def _new(self, timeout_s: float) -> ProducerId:
        await self.until_some(timeout_s)
        given = self.take()
        assert given is not None, "nothing else runs between the two"
        return given

    async def have_some(self) -> None:
        """Get a block before the first request, so that new producers can start while no controller
        runs.

        A failure loses nothing: the first producer's request then waits for a block.
        """
        try:
            async with self._allocating:
                if self._next == self._end:
                    await self._allocate()
        except WireError:
            return

    async def _allocate(self) -> None:
        epoch = self._broker_epoch()
        if epoch == NO_BROKER_EPOCH:
            raise NotController("this broker is not registered yet; retry")
        try:
            block = await self._controller.allocate_producer_ids(
                self._broker_id, epoch, timeout_s=ALLOCATION_TIMEOUT_S
            )
        except grpc.RpcError as error:
            raise self._controller.failure(error) from None
        if block.error is not None:
            raise block.error
        if block.length <= 0 or block.start < 0:
            raise UnknownServerError(
                f"the controller gave {block.length} producer ids from {block.start}; retry"
            )
        self._next = block.start
        self._end = block.start + block.length
