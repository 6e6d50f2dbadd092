"""The broker's one channel to the controller, and the meaning of a failed call on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import grpc.aio

from strandline_broker.rpc.cluster.controller_codec import (
    alterations_from_wire,
    block_from_wire,
    heartbeat_answer_from_wire,
    heartbeat_to_wire,
    proposals_to_wire,
    registered_from_wire,
    registration_to_wire,
)
from strandline_proto.errors import (
    NotController,
    RequestTimedOut,
    UnknownServerError,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.v1 import controller_pb2
from strandline_proto.v1.services_pb2_grpc import ControllerServiceStub
from strandline_runtime.renewal import Renewal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.registration import Registration
    from strandline_broker.core.replication.isr_proposal import ProposeIsr
    from strandline_broker.hosts.common.controller_calls import (
        AlterPartitionAnswer,
        Heartbeat,
        HeartbeatAnswer,
        Key,
        ProducerIdBlock,
        Registered,
    )
    from strandline_proto.ids import BrokerEpoch, BrokerId
    from strandline_proto.v1.services_pb2_grpc import ControllerServiceAsyncStub
    from strandline_runtime.runtime import Runtime


class ControllerLink:
    """The channel to the controller, opened at first use and shared by all callers."""

    def __init__(self, runtime: Runtime, target: str) -> None:
        self.target = target
        self._runtime = runtime
        self._channel: grpc.aio.Channel | None = None
        self._stub: ControllerServiceAsyncStub | None = None
        self._renewal = Renewal(runtime.clock)

    @property
    def stub(self) -> ControllerServiceAsyncStub:
        if self._stub is None:
            self._channel = self._runtime.network.channel(self.target)
            self._stub = ControllerServiceStub(self._channel)
        return self._stub

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        self._channel = self._stub = None

    async def register(self, registration: Registration, *, timeout_s: float) -> Registered:
        request = registration_to_wire(registration)
        answer = await self.stub.BrokerRegistration(request, timeout=timeout_s)
        return registered_from_wire(answer)

    def heartbeats(self) -> HeartbeatCall:
        return HeartbeatCall(self.stub.BrokerHeartbeat())

    async def alter_partitions(
        self,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        proposals: Mapping[Key, ProposeIsr],
        *,
        timeout_s: float,
    ) -> AlterPartitionAnswer:
        request = proposals_to_wire(broker_id, broker_epoch, proposals)
        return alterations_from_wire(await self.stub.AlterPartition(request, timeout=timeout_s))

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, *, timeout_s: float
    ) -> ProducerIdBlock:
        request = controller_pb2.AllocateProducerIdsRequest(
            broker_id=broker_id, broker_epoch=broker_epoch
        )
        return block_from_wire(await self.stub.AllocateProducerIds(request, timeout=timeout_s))

    def failure(self, error: grpc.RpcError) -> WireError:
        """A failed call, in words. Its outcome is unknown: the controller may have carried it out.
        A channel that has not reached a controller for a while is closed.
        """
        code = error.code() if isinstance(error, grpc.aio.AioRpcError) else None
        details = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return RequestTimedOut(
                f"the controller at {self.target} did not answer in time; the outcome is unknown"
            )
        if code is grpc.StatusCode.UNAVAILABLE and self._renewal.is_due():
            self._channel = self._stub = None
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            return NotController(
                f"no controller can be reached at {self.target} ({_short(details)}); is it running?"
            )
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return UnsupportedVersion(f"the process at {self.target} is not a controller")
        return UnknownServerError(
            f"the call to the controller at {self.target} failed: {_short(details)}"
        )


class HeartbeatCall:
    def __init__(
        self,
        call: grpc.aio.StreamStreamCall[
            controller_pb2.BrokerHeartbeatRequest, controller_pb2.BrokerHeartbeatResponse
        ],
    ) -> None:
        self._call = call

    async def write(self, heartbeat: Heartbeat) -> None:
        await self._call.write(heartbeat_to_wire(heartbeat))

    async def read(self) -> HeartbeatAnswer | None:
        answer = await self._call.read()
        if not isinstance(answer, controller_pb2.BrokerHeartbeatResponse):
            return None
        return heartbeat_answer_from_wire(answer)

    def cancel(self) -> None:
        self._call.cancel()


def _short(details: str | None) -> str:
    """The cause at the end of gRPC's account, without its list of every address tried."""
    lines = (details or "no details").strip().splitlines()
    return lines[0].rsplit(": ", 1)[-1][:200]
