"""What only the controller may answer: the broker passes it on, and says so when no controller can
be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_proto.v1 import elections_pb2, metadata_pb2, partitions_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.controller_link import ControllerLink

TIMEOUT_S_MIN: Final = 0.1
TIMEOUT_S_DEFAULT: Final = 30.0
TIMEOUT_S_MAX: Final = 300.0
DESCRIBE_TIMEOUT_S: Final = 5.0


class AdminRpc:
    def __init__(self, link: ControllerLink) -> None:
        self._link = link

    async def CreateTopics(
        self, request: metadata_pb2.CreateTopicsRequest, context: Any
    ) -> metadata_pb2.CreateTopicsResponse:
        try:
            return await self._link.stub.CreateTopics(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return metadata_pb2.CreateTopicsResponse(
                error_code=failed.code, error_message=str(failed)
            )

    async def CreatePartitions(
        self, request: partitions_pb2.CreatePartitionsRequest, context: Any
    ) -> partitions_pb2.CreatePartitionsResponse:
        try:
            return await self._link.stub.CreatePartitions(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return partitions_pb2.CreatePartitionsResponse(
                error_code=failed.code, error_message=str(failed)
            )

    async def DeleteTopics(
        self, request: metadata_pb2.DeleteTopicsRequest, context: Any
    ) -> metadata_pb2.DeleteTopicsResponse:
        try:
            return await self._link.stub.DeleteTopics(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return metadata_pb2.DeleteTopicsResponse(
                error_code=failed.code, error_message=str(failed)
            )

    async def IncrementalAlterConfigs(
        self, request: metadata_pb2.IncrementalAlterConfigsRequest, context: Any
    ) -> metadata_pb2.IncrementalAlterConfigsResponse:
        try:
            return await self._link.stub.IncrementalAlterConfigs(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return metadata_pb2.IncrementalAlterConfigsResponse(
                error_code=failed.code, error_message=str(failed)
            )

    async def ElectLeaders(
        self, request: elections_pb2.ElectLeadersRequest, context: Any
    ) -> elections_pb2.ElectLeadersResponse:
        try:
            return await self._link.stub.ElectLeaders(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return elections_pb2.ElectLeadersResponse(
                error_code=failed.code, error_message=str(failed)
            )

    async def DescribeCluster(
        self, request: metadata_pb2.DescribeClusterRequest, context: Any
    ) -> metadata_pb2.DescribeClusterResponse:
        try:
            return await self._link.stub.DescribeCluster(request, timeout=DESCRIBE_TIMEOUT_S)
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return metadata_pb2.DescribeClusterResponse(
                error_code=failed.code, error_message=str(failed)
            )


def timeout_s(timeout_ms: int) -> float:
    """The request's own limit within bounds; one that names none gets the default."""
    if timeout_ms <= 0:
        return TIMEOUT_S_DEFAULT
    return min(max(timeout_ms / 1000, TIMEOUT_S_MIN), TIMEOUT_S_MAX)
