"""Calls that only the controller may answer. The broker forwards them, and answers with an error
when it cannot reach a controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc

from strandline_broker.hosts.serving.administration import timeout_s
from strandline_broker.rpc.cluster.alter_configs import alter_configs
from strandline_proto.v1 import elections_pb2, metadata_pb2, partitions_pb2, reassignment_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_broker.core.groups.settings import GroupSettings
    from strandline_broker.rpc.cluster.controller_link import ControllerLink

DESCRIBE_TIMEOUT_S: Final = 5.0

Response = TypeVar("Response")


class AdminRpc:
    def __init__(self, link: ControllerLink, groups: GroupSettings) -> None:
        self._link = link
        self._groups = groups

    async def _forward(
        self,
        call: Callable[..., Awaitable[Response]],
        request: Any,
        response: Callable[..., Response],
        limit_s: float | None = None,
    ) -> Response:
        """The controller's answer, within the request's own time unless another limit is given."""
        if limit_s is None:
            limit_s = timeout_s(request.timeout_ms)
        try:
            return await call(request, timeout=limit_s)
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return response(error_code=failed.code, error_message=str(failed))

    async def CreateTopics(
        self, request: metadata_pb2.CreateTopicsRequest, context: Any
    ) -> metadata_pb2.CreateTopicsResponse:
        return await self._forward(
            self._link.stub.CreateTopics, request, metadata_pb2.CreateTopicsResponse
        )

    async def CreatePartitions(
        self, request: partitions_pb2.CreatePartitionsRequest, context: Any
    ) -> partitions_pb2.CreatePartitionsResponse:
        return await self._forward(
            self._link.stub.CreatePartitions, request, partitions_pb2.CreatePartitionsResponse
        )

    async def DeleteTopics(
        self, request: metadata_pb2.DeleteTopicsRequest, context: Any
    ) -> metadata_pb2.DeleteTopicsResponse:
        return await self._forward(
            self._link.stub.DeleteTopics, request, metadata_pb2.DeleteTopicsResponse
        )

    async def IncrementalAlterConfigs(
        self, request: metadata_pb2.IncrementalAlterConfigsRequest, context: Any
    ) -> metadata_pb2.IncrementalAlterConfigsResponse:
        async def forward(
            request: metadata_pb2.IncrementalAlterConfigsRequest,
        ) -> metadata_pb2.IncrementalAlterConfigsResponse:
            return await self._forward(
                self._link.stub.IncrementalAlterConfigs,
                request,
                metadata_pb2.IncrementalAlterConfigsResponse,
            )

        return await alter_configs(request, self._groups, forward)

    async def ElectLeaders(
        self, request: elections_pb2.ElectLeadersRequest, context: Any
    ) -> elections_pb2.ElectLeadersResponse:
        return await self._forward(
            self._link.stub.ElectLeaders, request, elections_pb2.ElectLeadersResponse
        )

    async def AlterPartitionReassignments(
        self, request: reassignment_pb2.AlterPartitionReassignmentsRequest, context: Any
    ) -> reassignment_pb2.AlterPartitionReassignmentsResponse:
        return await self._forward(
            self._link.stub.AlterPartitionReassignments,
            request,
            reassignment_pb2.AlterPartitionReassignmentsResponse,
        )

    async def ListPartitionReassignments(
        self, request: reassignment_pb2.ListPartitionReassignmentsRequest, context: Any
    ) -> reassignment_pb2.ListPartitionReassignmentsResponse:
        return await self._forward(
            self._link.stub.ListPartitionReassignments,
            request,
            reassignment_pb2.ListPartitionReassignmentsResponse,
        )

    async def DecommissionBroker(
        self, request: reassignment_pb2.DecommissionBrokerRequest, context: Any
    ) -> reassignment_pb2.DecommissionBrokerResponse:
        return await self._forward(
            self._link.stub.DecommissionBroker, request, reassignment_pb2.DecommissionBrokerResponse
        )

    async def UnregisterBroker(
        self, request: reassignment_pb2.UnregisterBrokerRequest, context: Any
    ) -> reassignment_pb2.UnregisterBrokerResponse:
        return await self._forward(
            self._link.stub.UnregisterBroker, request, reassignment_pb2.UnregisterBrokerResponse
        )

    async def DescribeCluster(
        self, request: metadata_pb2.DescribeClusterRequest, context: Any
    ) -> metadata_pb2.DescribeClusterResponse:
        return await self._forward(
            self._link.stub.DescribeCluster,
            request,
            metadata_pb2.DescribeClusterResponse,
            DESCRIBE_TIMEOUT_S,
        )
