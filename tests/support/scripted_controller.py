"""A controller that answers as the test says, over real gRPC on loopback."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from strandline_proto.v1 import (
    controller_pb2,
    elections_pb2,
    metadata_pb2,
    partitions_pb2,
    services_pb2_grpc,
)
from strandline_runtime.real import real_runtime
from support.scripted_reassignments import ScriptedReassignments

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

WAIT_S = 60.0


class ScriptedController(ScriptedReassignments, services_pb2_grpc.ControllerServiceServicer):
    """Attributes are the script: replace one to change what is answered from then on."""

    def __init__(self) -> None:
        self.target = ""
        self.registrations: list[controller_pb2.BrokerRegistrationRequest] = []
        self.heartbeats: list[controller_pb2.BrokerHeartbeatRequest] = []
        self.alterations: list[controller_pb2.AlterPartitionRequest] = []
        self.allocations = 0
        self.ids_per_block = 3
        self.streams = 0
        self.on_registration: Callable[
            [controller_pb2.BrokerRegistrationRequest], controller_pb2.BrokerRegistrationResponse
        ] = lambda _: controller_pb2.BrokerRegistrationResponse(
            broker_epoch=7, cluster_id="cluster", store_id="store"
        )
        self.on_heartbeat: Callable[
            [controller_pb2.BrokerHeartbeatRequest],
            controller_pb2.BrokerHeartbeatResponse | None,
        ] = lambda beat: controller_pb2.BrokerHeartbeatResponse(
            is_fenced=beat.want_fence, should_shut_down=beat.want_shut_down
        )
        self.on_alteration: Callable[
            [controller_pb2.AlterPartitionRequest], controller_pb2.AlterPartitionResponse
        ] = lambda _: controller_pb2.AlterPartitionResponse()
        self.alterations_go_on = asyncio.Event()
        self.alterations_go_on.set()
        self.heartbeats_go_on = asyncio.Event()
        self.heartbeats_go_on.set()
        self._news = asyncio.Condition()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until the script has seen what the test waits for."""
        async with asyncio.timeout(WAIT_S), self._news:
            await self._news.wait_for(true)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def BrokerRegistration(self, request: Any, context: Any) -> Any:
        self.registrations.append(request)
        await self._tell()
        return self.on_registration(request)

    async def BrokerHeartbeat(self, request_iterator: Any, context: Any) -> Any:
        self.streams += 1
        async for beat in request_iterator:
            self.heartbeats.append(beat)
            await self._tell()
            await self.heartbeats_go_on.wait()
            answer = self.on_heartbeat(beat)
            if answer is None:
                return
            yield answer

    async def AlterPartition(self, request: Any, context: Any) -> Any:
        self.alterations.append(request)
        await self._tell()
        await self.alterations_go_on.wait()
        return self.on_alteration(request)

    async def AllocateProducerIds(self, request: Any, context: Any) -> Any:
        start = self.allocations * 3
        self.allocations += 1
        return controller_pb2.AllocateProducerIdsResponse(
            producer_id_start=start, producer_id_len=self.ids_per_block
        )

    async def CreateTopics(self, request: Any, context: Any) -> Any:
        return metadata_pb2.CreateTopicsResponse(
            topics=[metadata_pb2.TopicResult(name=t.name) for t in request.topics]
        )

    async def DeleteTopics(self, request: Any, context: Any) -> Any:
        return metadata_pb2.DeleteTopicsResponse()

    async def IncrementalAlterConfigs(self, request: Any, context: Any) -> Any:
        return metadata_pb2.IncrementalAlterConfigsResponse(
            results=[
                metadata_pb2.AlterConfigsResult(type=r.type, name=r.name) for r in request.resources
            ]
        )

    async def CreatePartitions(self, request: Any, context: Any) -> Any:
        return partitions_pb2.CreatePartitionsResponse()

    async def ElectLeaders(self, request: Any, context: Any) -> Any:
        return elections_pb2.ElectLeadersResponse()

    async def DescribeCluster(self, request: Any, context: Any) -> Any:
        return metadata_pb2.DescribeClusterResponse(cluster_id="cluster")


@asynccontextmanager
async def scripted_controller(port: int = 0) -> AsyncIterator[ScriptedController]:
    controller = ScriptedController()
    server = real_runtime("scripted-controller").network.server()
    services_pb2_grpc.add_ControllerServiceServicer_to_server(controller, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    controller.target = f"127.0.0.1:{port}"
    await server.start()
    try:
        yield controller
    finally:
        await server.stop(None)


@asynccontextmanager
async def running(*coroutines: Any) -> AsyncIterator[None]:
    """Background work of the code under test, for as long as the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
        yield
        for task in tasks:
            task.cancel()
