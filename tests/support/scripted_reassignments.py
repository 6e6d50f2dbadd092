"""Reassignment calls of a scripted broker or controller: accepted, and nothing is under way."""

from typing import Any

from strandline_proto.v1 import reassignment_pb2


class ScriptedReassignments:
    async def AlterPartitionReassignments(self, request: Any, context: Any) -> Any:
        return reassignment_pb2.AlterPartitionReassignmentsResponse(
            topics=[
                reassignment_pb2.ReassignTopicResult(
                    name=topic.name,
                    partitions=[
                        reassignment_pb2.ReassignPartitionResult(partition_index=p.partition_index)
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    async def ListPartitionReassignments(self, request: Any, context: Any) -> Any:
        return reassignment_pb2.ListPartitionReassignmentsResponse()

    async def DecommissionBroker(self, request: Any, context: Any) -> Any:
        return reassignment_pb2.DecommissionBrokerResponse()

    async def UnregisterBroker(self, request: Any, context: Any) -> Any:
        return reassignment_pb2.UnregisterBrokerResponse()
