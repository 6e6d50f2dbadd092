"""Calls that move replicas between brokers or remove a broker: part of both admins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from strandline._net.answers import check
from strandline._net.arguments import mapping, partitions_or_topics, several
from strandline.errors import BrokerUnreachable, from_code
from strandline.types import PartitionReassignment, ReassignmentResult, TopicPartition
from strandline_proto.errors import NONE
from strandline_proto.v1 import reassignment_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

T = TypeVar("T")


class Reassignments(ABC):
    """The calls of `Admin` that move replicas or remove a broker."""

    _timeout_s: float

    @abstractmethod
    async def _ask(self, method: Callable[[Any], Callable[..., Any]], request: Any) -> Any:
        """Makes one call, which is safe to repeat, to any broker that answers."""

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition | tuple[str, int], Sequence[int] | None]
    ) -> list[ReassignmentResult]:
        """Moves each partition to these replicas, preferred leader first.

        None cancels a reassignment under way; another target replaces it. Returns results in the
        order of the arguments, once the controller has decided. The new replicas copy in the
        background: `list_partition_reassignments` lists those under way.
        """
        request = reassignment_pb2.AlterPartitionReassignmentsRequest(
            timeout_ms=int(self._timeout_s * 1000)
        )
        topics: dict[str, reassignment_pb2.ReassignTopic] = {}
        for (name, index), replicas in mapping("targets", targets).items():
            if name not in topics:
                topics[name] = request.topics.add(name=name)
            partition = topics[name].partitions.add(partition_index=index)
            if replicas is not None:
                partition.target.SetInParent()
                partition.target.replicas.extend(several("targets", replicas, int))
        if not request.topics:
            return []
        answer = await self._ask(lambda stub: stub.AlterPartitionReassignments, request)
        check(answer)
        found = {
            (topic.name, p.partition_index): None
            if p.error_code == NONE
            else from_code(p.error_code, p.error_message)
            for topic in answer.topics
            for p in topic.partitions
        }
        for name, index in targets:
            if (name, index) not in found:
                raise BrokerUnreachable(f"the answer says nothing about partition {name}:{index}")
        return [ReassignmentResult(TopicPartition(*key), found[key[0], key[1]]) for key in targets]

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition | tuple[str, int] | str] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Lists the reassignments under way, of all partitions or of these.

        A topic's name stands for all its partitions. Raises UnknownTopicOrPartition for a missing
        topic.
        """
        request = reassignment_pb2.ListPartitionReassignmentsRequest(
            timeout_ms=int(self._timeout_s * 1000)
        )
        named: dict[str, reassignment_pb2.ReassignmentsOfTopic] = {}
        for wanted in () if partitions is None else partitions_or_topics("partitions", partitions):
            if isinstance(wanted, str):
                request.topics.add(name=wanted)
                continue
            name, index = wanted
            if name not in named:
                named[name] = request.topics.add(name=name)
            named[name].partitions.append(index)
        if partitions is not None and not request.topics:
            return {}
        answer = await self._ask(lambda stub: stub.ListPartitionReassignments, request)
        check(answer)
        return {
            TopicPartition(topic.name, p.partition_index): PartitionReassignment(
                replicas=tuple(p.replicas),
                adding=tuple(p.adding_replicas),
                removing=tuple(p.removing_replicas),
                original=tuple(p.original_replicas),
                isr=tuple(p.isr),
                leader=p.leader,
            )
            for topic in answer.topics
            for p in topic.partitions
        }

    async def decommission_broker(self, broker_id: int, *, undo: bool = False) -> None:
        """Stops new replicas on the broker; with `undo`, permits them again.

        The replicas on the broker stay until they are reassigned.
        """
        request = reassignment_pb2.DecommissionBrokerRequest(
            broker_id=broker_id, undo=undo, timeout_ms=int(self._timeout_s * 1000)
        )
        check(await self._ask(lambda stub: stub.DecommissionBroker, request))

    async def unregister_broker(self, broker_id: int) -> None:
        """Removes a broker from the cluster.

        Raises PolicyViolation while the broker runs or hosts a replica.
        """
        request = reassignment_pb2.UnregisterBrokerRequest(
            broker_id=broker_id, timeout_ms=int(self._timeout_s * 1000)
        )
        check(await self._ask(lambda stub: stub.UnregisterBroker, request))


class BlockingReassignments(ABC):
    """The blocking forms of the calls that move replicas or remove a broker."""

    @abstractmethod
    def _call(self, coroutine_of: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Runs the coroutine on the loop of the blocking admin."""

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition | tuple[str, int], Sequence[int] | None]
    ) -> list[ReassignmentResult]:
        """Moves each partition to these replicas, preferred leader first; None cancels a move.

        Returns results in the order of the arguments, once the controller has decided.
        """
        return self._call(lambda twin: twin.alter_partition_reassignments(targets))

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition | tuple[str, int] | str] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Lists the reassignments under way, of all partitions or of these.

        Raises UnknownTopicOrPartition for a missing topic.
        """
        return self._call(lambda twin: twin.list_partition_reassignments(partitions))

    def decommission_broker(self, broker_id: int, *, undo: bool = False) -> None:
        """Stops new replicas on the broker; with `undo`, permits them again."""
        self._call(lambda twin: twin.decommission_broker(broker_id, undo=undo))

    def unregister_broker(self, broker_id: int) -> None:
        """Removes a broker from the cluster.

        Raises PolicyViolation while the broker runs or hosts a replica.
        """
        self._call(lambda twin: twin.unregister_broker(broker_id))
