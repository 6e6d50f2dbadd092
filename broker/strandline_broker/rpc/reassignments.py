"""Reassignments and the decommission of brokers: passed on to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from strandline_broker.rpc.admin import timeout_s
from strandline_proto.v1 import reassignment_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.controller_link import ControllerLink


class ReassignmentsRpc:
    def __init__(self, link: ControllerLink) -> None:
        self._link = link

    async def AlterPartitionReassignments(
        self, request: reassignment_pb2.AlterPartitionReassignmentsRequest, context: Any
    ) -> reassignment_pb2.AlterPartitionReassignmentsResponse:
        try:
            return await self._link.stub.AlterPartitionReassignments(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return reassignment_pb2.AlterPartitionReassignmentsResponse(
                error_code=failed.code, error_message=str(failed)
            )

    async def ListPartitionReassignments(
        self, request: reassignment_pb2.ListPartitionReassignmentsRequest, context: Any
    ) -> reassignment_pb2.ListPartitionReassignmentsResponse:
        try:
            return await self._link.stub.ListPartitionReassignments(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return reassignment_pb2.ListPartitionReassignmentsResponse(
                error_code=failed.code, error_message=str(failed)
            )

    async def DecommissionBroker(
        self, request: reassignment_pb2.DecommissionBrokerRequest, context: Any
    ) -> reassignment_pb2.DecommissionBrokerResponse:
        try:
            return await self._link.stub.DecommissionBroker(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return reassignment_pb2.DecommissionBrokerResponse(
                error_code=failed.code, error_message=str(failed)
            )

    async def UnregisterBroker(
        self, request: reassignment_pb2.UnregisterBrokerRequest, context: Any
    ) -> reassignment_pb2.UnregisterBrokerResponse:
        try:
            return await self._link.stub.UnregisterBroker(
                request, timeout=timeout_s(request.timeout_ms)
            )
        except grpc.RpcError as error:
            failed = self._link.failure(error)
            return reassignment_pb2.UnregisterBrokerResponse(
                error_code=failed.code, error_message=str(failed)
            )
